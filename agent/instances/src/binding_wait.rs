//! The wait for a guest's accelerator requests, as a machine without clock or socket.
//!
//! Events only say that asking is worth while; what the service answers decides. An event that comes while a question is
//! under way makes a second question necessary, so neither order of event and answer loses one; an event that says "failed"
//! refuses the guest unless the service, asked afterwards, says that the request is bound. A guest gets the devices of exactly
//! its requests or none: each must be bound, to this guest, on this node, to a device that there is, and none besides.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_agent_journal::{BoundDevice, BoundDevices, DuplicateBinding, GuestRequest, NoDevice};
use berth_client::AcceleratorError;
use berth_model::{Arq, ArqPhase, ArqState, ArqUuid, ConsumerUuid, NodeName};
use berth_wire::BodyError;
use berth_wire::compute::EventStatus;

/// Why a guest does not get its devices.
#[derive(Debug, thiserror::Error)]
pub enum BindRefused {
    /// The service could not bind it.
    #[error("accelerator request {arq} could not be bound (BindFailed)")]
    BindFailed { arq: ArqUuid },
    /// It is being deleted.
    #[error("accelerator request {arq} is being deleted")]
    Deleting { arq: ArqUuid },
    /// Its device could not be given back, and nobody knows in which state it is.
    #[error(
        "accelerator request {arq} could not be unbound (UnbindFailed): its device is in an unknown state"
    )]
    UnbindFailed { arq: ArqUuid },
    /// It does not exist, or is another project's.
    #[error("accelerator request {arq} does not exist, or is another project's")]
    Gone { arq: ArqUuid },
    /// It is bound for a host that is not this one.
    #[error("accelerator request {arq} is bound on host {host}, and this is {node}")]
    WrongHost {
        arq: ArqUuid,
        /// The host it is bound on.
        host: String,
        node: NodeName,
    },
    /// It is bound for another guest.
    #[error("accelerator request {arq} is bound for guest {instance}")]
    WrongInstance {
        arq: ArqUuid,
        instance: ConsumerUuid,
    },
    /// What it is bound to is no device.
    #[error(transparent)]
    NoDevice(#[from] NoDevice),
    /// What the service says of it makes no sense: an unknown state or kind of handle.
    #[error("accelerator request {arq} cannot be used: {reason}")]
    Unreadable { arq: ArqUuid, reason: BodyError },
    /// The guest has a request that nobody asked it to be made with.
    #[error(
        "accelerator request {arq} is bound for this guest, but the guest was asked for without it: it would start with \
         fewer devices than are bound"
    )]
    Unasked { arq: ArqUuid },
    /// One device for two requests.
    #[error("the accelerator service bound one device for two: {0}")]
    Twice(#[from] DuplicateBinding),
    /// Before the agent's restart other devices were bound.
    #[error(
        "the accelerator requests are bound to {now}, and were to {before} when the spawn began"
    )]
    Changed {
        before: BoundDevices,
        now: BoundDevices,
    },
    #[error(
        "after {} s (arq_binding_timeout) accelerator requests are not bound: {}", waited.as_secs(), list(missing)
    )]
    TimedOut {
        /// How long was waited.
        waited: Duration,
        /// Which, and how they are.
        missing: BTreeMap<ArqUuid, ArqPhase>,
    },
    /// Time is up, and the service did not answer once.
    #[error("after {} s (arq_binding_timeout) the accelerator service has not answered: {last}", waited.as_secs())]
    Unanswered {
        /// How long was waited.
        waited: Duration,
        /// What came of the last question.
        last: String,
    },
    /// The service refuses to tell.
    #[error(transparent)]
    Service(#[from] Box<AcceleratorError>),
    /// The agent is told of no accelerator service.
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

/// What the service said of a guest's requests: each that was asked about, and each other that it has for the guest.
pub type ArqAnswer = BTreeMap<ArqUuid, SeenArq>;

/// What the service said of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenArq {
    There(Arq),
    /// Something that makes no sense.
    Unreadable(BodyError),
    Gone,
}

/// What an event is to the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// One of the awaited requests.
    Ours,
    /// Something else: nothing follows from it.
    Stranger,
}

/// What is to be done now.
#[derive(Debug)]
#[must_use = "the wait stands still until it is done"]
pub enum Next {
    /// Ask the service, now.
    Ask,
    /// Wait for an event, or until it is time to ask again all the same.
    Wait,
    /// Every request is bound.
    Bound(BoundDevices),
    /// There will be no guest.
    Refused(BindRefused),
}

#[derive(Debug, Clone, Copy, Default)]
struct News {
    /// An event came since the last question was sent.
    fresh: Option<EventStatus>,
    /// An event that said "failed" came before it was sent.
    failed: bool,
    /// How the service said it is.
    phase: Option<ArqPhase>,
}

/// The wait for one guest.
#[derive(Debug)]
pub struct BindingWait {
    instance: ConsumerUuid,
    node: NodeName,
    news: BTreeMap<ArqUuid, News>,
}

impl BindingWait {
    /// A wait for all requests of this guest. Subscribe to events before the first question.
    #[must_use]
    pub fn new(request: &GuestRequest) -> Self {
        let news = request.arqs().iter();
        Self {
            instance: request.uuid(),
            node: request.node().clone(),
            news: news.map(|arq| (*arq, News::default())).collect(),
        }
    }

    /// An event about a request of some guest.
    pub fn event(&mut self, instance: ConsumerUuid, arq: ArqUuid, status: EventStatus) -> Heard {
        match self.news.get_mut(&arq) {
            Some(news) if instance == self.instance => {
                news.fresh = Some(status);
                Heard::Ours
            }
            _ => Heard::Stranger,
        }
    }

    /// A question is sent now: what was heard until here, its answer includes.
    pub fn asked(&mut self) {
        for news in self.news.values_mut() {
            if let Some(status) = news.fresh.take() {
                news.failed = status == EventStatus::Failed;
            }
        }
    }

    /// The question was not answered.
    pub fn unanswered(&self) -> Next {
        self.waiting()
    }

    /// The answer to the last question.
    pub fn answered(&mut self, answer: &ArqAnswer) -> Next {
        match self.judge(answer) {
            Ok(Some(devices)) => Next::Bound(devices),
            Ok(None) => self.waiting(),
            Err(refused) => Next::Refused(refused),
        }
    }

    /// Time is up. `last` is what came of the last question, where that was no answer.
    #[must_use]
    pub fn late(&self, waited: Duration, last: Option<String>) -> BindRefused {
        let never = self.news.values().all(|news| news.phase.is_none());
        if let (true, Some(last)) = (never, last) {
            return BindRefused::Unanswered { waited, last };
        }
        let missing = self.news.iter().filter_map(|(arq, news)| {
            let phase = news.phase.unwrap_or(ArqPhase::Initial);
            (phase != ArqPhase::Bound).then_some((*arq, phase))
        });
        BindRefused::TimedOut {
            waited,
            missing: missing.collect(),
        }
    }

    fn waiting(&self) -> Next {
        if self.news.values().any(|news| news.fresh.is_some()) {
            Next::Ask
        } else {
            Next::Wait
        }
    }

    /// All devices, or none yet.
    fn judge(&mut self, answer: &ArqAnswer) -> Result<Option<BoundDevices>, BindRefused> {
        if let Some(arq) = answer.keys().find(|arq| !self.news.contains_key(arq)) {
            return Err(BindRefused::Unasked { arq: *arq });
        }
        let mut devices = Vec::with_capacity(self.news.len());
        for (arq, news) in &mut self.news {
            let arq = *arq;
            let seen = match answer.get(&arq) {
                Some(SeenArq::There(seen)) => seen,
                Some(SeenArq::Unreadable(reason)) => {
                    let reason = reason.clone();
                    return Err(BindRefused::Unreadable { arq, reason });
                }
                Some(SeenArq::Gone) | None => return Err(BindRefused::Gone { arq }),
            };
            news.phase = Some(seen.state.phase());
            match device(arq, &seen.state, self.instance, &self.node)? {
                Some(device) => devices.push(device),
                None if news.failed => return Err(BindRefused::BindFailed { arq }),
                None => {}
            }
        }
        if devices.len() < self.news.len() {
            return Ok(None);
        }
        Ok(Some(BoundDevices::new(devices)?))
    }
}

/// The device of a request that is bound for this guest on this node; none while that may still come.
fn device(
    arq: ArqUuid,
    state: &ArqState,
    instance: ConsumerUuid,
    node: &NodeName,
) -> Result<Option<BoundDevice>, BindRefused> {
    if let Some(binding) = state.binding() {
        if binding.instance != instance {
            let instance = binding.instance;
            return Err(BindRefused::WrongInstance { arq, instance });
        }
        if binding.hostname != node.as_str() {
            return Err(BindRefused::WrongHost {
                arq,
                host: binding.hostname.clone(),
                node: node.clone(),
            });
        }
    }
    match state {
        ArqState::Bound(_, handle) => Ok(Some(BoundDevice::of(arq, handle)?)),
        ArqState::Initial | ArqState::BindStarted(_) | ArqState::Unbound => Ok(None),
        ArqState::BindFailed(_) => Err(BindRefused::BindFailed { arq }),
        ArqState::UnbindFailed(_) => Err(BindRefused::UnbindFailed { arq }),
        ArqState::Deleting => Err(BindRefused::Deleting { arq }),
    }
}

#[cfg(test)]
mod tests;
