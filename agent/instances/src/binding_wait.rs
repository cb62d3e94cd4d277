//! The state machine that waits for the accelerator requests (ARQs) of an instance. It has no clock and no I/O.
//!
//! ```text
//! query_sent --> query_answered --> BindingAction::Query   (an event arrived meanwhile)
//!                               |-> BindingAction::Wait    (until an event, or a pause)
//!                               |-> BindingAction::Bound
//!                               `-> BindingAction::Refused
//! ```
//!
//! Events only trigger queries; the answers decide. An event that arrives during a query triggers another query, so no order of
//! event and answer loses an event. A "failed" event refuses the spawn, unless a later answer shows the request as bound. The
//! instance gets the devices of exactly its requests: each request must be bound to this instance, on this node, to an existing
//! device, and no other request may be bound for the instance.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_agent_journal::{BoundDevice, BoundDevices, DuplicateBinding, GuestRequest, NoDevice};
use berth_client::AcceleratorError;
use berth_model::{Arq, ArqPhase, ArqState, ArqUuid, ConsumerUuid, NodeName};
use berth_wire::BodyError;
use berth_wire::compute::EventStatus;

/// Why an instance does not get its devices.
#[derive(Debug, thiserror::Error)]
pub enum BindingRefusal {
    #[error("accelerator request {arq} could not be bound (BindFailed)")]
    BindFailed { arq: ArqUuid },
    #[error("accelerator request {arq} is being deleted")]
    Deleting { arq: ArqUuid },
    #[error(
        "accelerator request {arq} could not be unbound (UnbindFailed): its device is in an unknown state"
    )]
    UnbindFailed { arq: ArqUuid },
    #[error("accelerator request {arq} does not exist, or belongs to another project")]
    Gone { arq: ArqUuid },
    #[error("accelerator request {arq} is bound on host {host}, not on this host ({node})")]
    WrongHost {
        arq: ArqUuid,
        host: String,
        node: NodeName,
    },
    #[error("accelerator request {arq} is bound for guest {instance}")]
    WrongInstance {
        arq: ArqUuid,
        instance: ConsumerUuid,
    },
    /// The attach handle names no device.
    #[error(transparent)]
    NoDevice(#[from] NoDevice),
    /// The service returned an unknown state or type of attach handle.
    #[error("accelerator request {arq} cannot be used: {reason}")]
    Unreadable { arq: ArqUuid, reason: BodyError },
    /// A request that the instance does not list is bound for it.
    #[error(
        "accelerator request {arq} is bound for this guest, but is missing in the guest's request: the guest would start \
         with fewer devices than are bound"
    )]
    UnexpectedArq { arq: ArqUuid },
    #[error("the accelerator service bound one device for two requests: {0}")]
    DuplicateDevice(#[from] DuplicateBinding),
    /// The requests were bound to other devices before the agent restarted.
    #[error(
        "the accelerator requests are now bound to {now}; when the spawn began, they were bound to {before}"
    )]
    Changed {
        before: BoundDevices,
        now: BoundDevices,
    },
    #[error(
        "timed out after {} s (arq_binding_timeout) waiting for accelerator requests to be bound: {}", waited.as_secs(), list(missing)
    )]
    TimedOut {
        waited: Duration,
        /// The requests that are not bound, with their states.
        missing: BTreeMap<ArqUuid, ArqPhase>,
    },
    /// The time limit has passed, and the service has never answered.
    #[error("timed out after {} s (arq_binding_timeout): the accelerator service did not answer: {last}", waited.as_secs())]
    NoAnswer {
        waited: Duration,
        /// The error of the last query.
        last: String,
    },
    /// The service refused the query.
    #[error(transparent)]
    Service(#[from] Box<AcceleratorError>),
    #[error(
        "the guest has accelerator requests, and no accelerator service is configured ([cyborg])"
    )]
    NoService,
}

fn list(missing: &BTreeMap<ArqUuid, ArqPhase>) -> String {
    let all: Vec<_> = missing
        .iter()
        .map(|(arq, phase)| format!("{arq} ({phase})"))
        .collect();
    all.join(", ")
}

/// The state of each request that was queried, and of each other request that is bound for the guest.
pub type ArqLookups = BTreeMap<ArqUuid, ArqLookup>;

/// The state of one request at the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArqLookup {
    There(Arq),
    /// The answer could not be parsed.
    Unreadable(BodyError),
    Gone,
}

/// Whether an event concerns the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRelevance {
    /// The event concerns one of the awaited requests.
    Awaited,
    /// The event concerns another request or instance.
    Unrelated,
}

/// What the caller does next.
#[derive(Debug)]
#[must_use = "the wait makes no progress until the action is done"]
pub enum BindingAction {
    /// Query the service now.
    Query,
    /// Wait for an event, or for the next periodic query.
    Wait,
    Bound(BoundDevices),
    Refused(BindingRefusal),
}

#[derive(Debug, Clone, Copy, Default)]
struct ArqProgress {
    /// The last event since the last query was sent.
    fresh: Option<EventStatus>,
    /// A "failed" event arrived before the last query was sent.
    failed: bool,
    /// The state in the last answer.
    phase: Option<ArqPhase>,
}

/// The wait for the requests of one instance.
#[derive(Debug)]
pub struct BindingWait {
    instance: ConsumerUuid,
    node: NodeName,
    news: BTreeMap<ArqUuid, ArqProgress>,
}

impl BindingWait {
    /// Waits for all requests of this instance. The caller subscribes to events before the first query.
    #[must_use]
    pub fn new(request: &GuestRequest) -> Self {
        let news = request.arqs().iter();
        Self {
            instance: request.uuid(),
            node: request.node().clone(),
            news: news.map(|arq| (*arq, ArqProgress::default())).collect(),
        }
    }

    /// Records an event about a request of any instance.
    pub fn event(
        &mut self,
        instance: ConsumerUuid,
        arq: ArqUuid,
        status: EventStatus,
    ) -> EventRelevance {
        match self.news.get_mut(&arq) {
            Some(news) if instance == self.instance => {
                news.fresh = Some(status);
                EventRelevance::Awaited
            }
            _ => EventRelevance::Unrelated,
        }
    }

    /// Call this before sending a query: its answer covers all events up to now.
    pub fn query_sent(&mut self) {
        for news in self.news.values_mut() {
            if let Some(status) = news.fresh.take() {
                news.failed = status == EventStatus::Failed;
            }
        }
    }

    pub fn query_failed(&self) -> BindingAction {
        self.next_action()
    }

    /// Evaluates the answer to the last query.
    pub fn query_answered(&mut self, answer: &ArqLookups) -> BindingAction {
        match self.evaluate(answer) {
            Ok(Some(devices)) => BindingAction::Bound(devices),
            Ok(None) => self.next_action(),
            Err(refused) => BindingAction::Refused(refused),
        }
    }

    /// The time limit has passed. `last` is the error of the last query, if it failed.
    #[must_use]
    pub fn timed_out(&self, waited: Duration, last: Option<String>) -> BindingRefusal {
        let never = self.news.values().all(|news| news.phase.is_none());
        if let (true, Some(last)) = (never, last) {
            return BindingRefusal::NoAnswer { waited, last };
        }
        let missing = self.news.iter().filter_map(|(arq, news)| {
            let phase = news.phase.unwrap_or(ArqPhase::Initial);
            (phase != ArqPhase::Bound).then_some((*arq, phase))
        });
        BindingRefusal::TimedOut {
            waited,
            missing: missing.collect(),
        }
    }

    fn next_action(&self) -> BindingAction {
        if self.news.values().any(|news| news.fresh.is_some()) {
            BindingAction::Query
        } else {
            BindingAction::Wait
        }
    }

    /// All devices; `None` while some are not bound yet.
    fn evaluate(&mut self, answer: &ArqLookups) -> Result<Option<BoundDevices>, BindingRefusal> {
        if let Some(arq) = answer.keys().find(|arq| !self.news.contains_key(arq)) {
            return Err(BindingRefusal::UnexpectedArq { arq: *arq });
        }
        let mut devices = Vec::with_capacity(self.news.len());
        for (arq, news) in &mut self.news {
            let arq = *arq;
            let seen = match answer.get(&arq) {
                Some(ArqLookup::There(seen)) => seen,
                Some(ArqLookup::Unreadable(reason)) => {
                    let reason = reason.clone();
                    return Err(BindingRefusal::Unreadable { arq, reason });
                }
                Some(ArqLookup::Gone) | None => return Err(BindingRefusal::Gone { arq }),
            };
            news.phase = Some(seen.state.phase());
            match device(arq, &seen.state, self.instance, &self.node)? {
                Some(device) => devices.push(device),
                None if news.failed => return Err(BindingRefusal::BindFailed { arq }),
                None => {}
            }
        }
        if devices.len() < self.news.len() {
            return Ok(None);
        }
        Ok(Some(BoundDevices::new(devices)?))
    }
}

/// The device of a request that is bound for this guest on this node; `None` while it may still be bound.
fn device(
    arq: ArqUuid,
    state: &ArqState,
    instance: ConsumerUuid,
    node: &NodeName,
) -> Result<Option<BoundDevice>, BindingRefusal> {
    if let Some(binding) = state.binding() {
        if binding.instance != instance {
            let instance = binding.instance;
            return Err(BindingRefusal::WrongInstance { arq, instance });
        }
        if binding.hostname != node.as_str() {
            return Err(BindingRefusal::WrongHost {
                arq,
                host: binding.hostname.clone(),
                node: node.clone(),
            });
        }
    }
    match state {
        ArqState::Bound(_, handle) => Ok(Some(BoundDevice::of(arq, handle)?)),
        ArqState::Initial | ArqState::BindStarted(_) | ArqState::Unbound => Ok(None),
        ArqState::BindFailed(_) => Err(BindingRefusal::BindFailed { arq }),
        ArqState::UnbindFailed(_) => Err(BindingRefusal::UnbindFailed { arq }),
        ArqState::Deleting => Err(BindingRefusal::Deleting { arq }),
    }
}

#[cfg(test)]
mod tests;
