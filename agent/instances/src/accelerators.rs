//! The client side of an instance's accelerator requests (ARQs): waits until they are bound, unbinds them, deletes
//! them.
//!
//! The wait itself is the state machine of [`crate::binding_wait`]; this module queries the service and receives its events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_agent_journal::{BoundDevice, BoundDevices, GuestRequest};
use berth_client::{AcceleratorClient, AcceleratorError};
use berth_model::{ArqPhase, ArqState, ArqUuid, ConsumerUuid, Disposition, NodeName, ProviderUuid};
use tokio::time::{Instant, sleep, timeout_at};

use crate::binding_wait::{
    ArqLookup, ArqLookups, BindingAction, BindingRefusal, BindingWait, EventRelevance,
};
use crate::external_events::{ExternalEvents, Subscription};

/// The minimum time between two queries, however many events arrive.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The first pause before a query without an event. Each later pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// The accelerator service, its events and the time limit for bindings.
#[derive(Clone)]
pub struct Accelerators {
    /// `None` if `[cyborg]` configures no service.
    pub client: Option<AcceleratorClient>,
    /// Events from the service.
    pub events: ExternalEvents,
    /// The value of the option `arq_binding_timeout`.
    pub binding_timeout: Duration,
}

impl Accelerators {
    /// Waits until all requests of the guest are bound. Subscribes before the first query, so no event is missed.
    pub(super) async fn wait_until_bound(
        &self,
        request: &GuestRequest,
    ) -> Result<BoundDevices, BindingRefusal> {
        if request.arqs().is_empty() {
            return Ok(BoundDevices::default());
        }
        let client = self.client.as_ref().ok_or(BindingRefusal::NoService)?;
        let mut events = self.events.subscribe(request.uuid());
        let began = Instant::now();
        let deadline = began + self.binding_timeout;
        let mut wait = BindingWait::new(request);
        let mut last = None;
        let mut pause = FIRST_PAUSE;
        loop {
            drain_events(&mut wait, &mut events);
            wait.query_sent();
            let answer = timeout_at(deadline, fetch_arqs(client, request)).await;
            drain_events(&mut wait, &mut events);
            let next = match answer {
                Ok(Ok(answer)) => {
                    last = None;
                    wait.query_answered(&answer)
                }
                Ok(Err(error)) if error.disposition() == Disposition::Fatal => {
                    return Err(Box::new(error).into());
                }
                Ok(Err(error)) => {
                    last = Some(error.to_string());
                    wait.query_failed()
                }
                Err(_) => return Err(wait.timed_out(began.elapsed(), last)),
            };
            let pause_now = match next {
                BindingAction::Bound(devices) => return Ok(devices),
                BindingAction::Refused(refused) => return Err(refused),
                BindingAction::Query => MIN_POLL_INTERVAL,
                BindingAction::Wait => {
                    let pause_now = pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                    pause_now
                }
            };
            if timeout_at(deadline, wait_for_event(&mut wait, &mut events, pause_now))
                .await
                .is_err()
            {
                return Err(wait.timed_out(began.elapsed(), last));
            }
        }
    }

    /// The devices that the guest's requests are bound to now. Sends one query and does not wait.
    pub(super) async fn bound_now(
        &self,
        request: &GuestRequest,
    ) -> Result<BoundDevices, BindingRefusal> {
        if request.arqs().is_empty() {
            return Ok(BoundDevices::default());
        }
        let client = self.client.as_ref().ok_or(BindingRefusal::NoService)?;
        let mut wait = BindingWait::new(request);
        wait.query_sent();
        let answer = fetch_arqs(client, request).await.map_err(Box::new)?;
        match wait.query_answered(&answer) {
            BindingAction::Bound(devices) => Ok(devices),
            BindingAction::Refused(refused) => Err(refused),
            BindingAction::Query | BindingAction::Wait => Err(wait.timed_out(Duration::ZERO, None)),
        }
    }

    /// All requests that are bound on these nodes, for any instance; empty without a service. The service has no filter
    /// by host, so this queries the requests of all hosts.
    pub(super) async fn arqs_bound_on(
        &self,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<Vec<BoundArq>, AcceleratorError> {
        let Some(client) = &self.client else {
            return Ok(Vec::new());
        };
        let mut here = Vec::new();
        // An unreadable request has no known binding.
        for arq in client
            .arqs()
            .await?
            .into_iter()
            .flat_map(|reported| reported.arq)
        {
            let ArqState::Bound(binding, handle) = &arq.state else {
                continue;
            };
            if nodes.iter().any(|node| node.as_str() == binding.hostname) {
                let device = BoundDevice::of(arq.uuid, handle);
                here.push(BoundArq {
                    arq: arq.uuid,
                    guest: binding.instance,
                    provider: binding.device_rp,
                    device: device.map_or_else(|_| handle.info.to_string(), |bound| bound.name()),
                });
            }
        }
        Ok(here)
    }

    /// Whether no accelerator service is configured.
    pub(super) fn is_absent(&self) -> bool {
        self.client.is_none()
    }

    /// Unbinds the guest's requests on this node. The requests remain.
    pub(super) async fn unbind(&self, request: &GuestRequest) -> Result<(), AcceleratorError> {
        let Some(client) = self.client.as_ref().filter(|_| !request.arqs().is_empty()) else {
            return Ok(());
        };
        let held = own_arqs(client, request).await?;
        if held.bound.is_empty() {
            return Ok(());
        }
        match client.unbind_arqs(&held.bound).await {
            Ok(()) => Ok(()),
            // The unbind may have taken effect for some requests. Repeating it for those would fail, so query what is
            // left.
            Err(error) if error.disposition() == Disposition::Fatal => Err(error),
            Err(error) => {
                let left = own_arqs(client, request).await?.bound;
                if left.is_empty() { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Deletes the guest's requests. Requests bound for another guest or on another node remain.
    pub(super) async fn delete(&self, request: &GuestRequest) -> Result<(), AcceleratorError> {
        let Some(client) = self.client.as_ref().filter(|_| !request.arqs().is_empty()) else {
            return Ok(());
        };
        for arq in own_arqs(client, request).await?.ours() {
            client.delete_arq(arq).await?;
        }
        Ok(())
    }
}

/// Fetches each request of the guest, and all others that are bound for it.
async fn fetch_arqs(
    client: &AcceleratorClient,
    request: &GuestRequest,
) -> Result<ArqLookups, AcceleratorError> {
    let mut answer = BTreeMap::new();
    let lookup = |arq| match arq {
        Ok(arq) => ArqLookup::There(arq),
        Err(reason) => ArqLookup::Unreadable(reason),
    };
    for reported in client.arqs_of_instance(request.uuid()).await? {
        answer.insert(reported.uuid, lookup(reported.arq));
    }
    // The list contains only requests that are bound for this guest.
    for arq in request.arqs() {
        if !answer.contains_key(arq) {
            let reported = client.arq(*arq).await?;
            answer.insert(
                *arq,
                reported.map_or(ArqLookup::Gone, |reported| lookup(reported.arq)),
            );
        }
    }
    Ok(answer)
}

/// The guest's requests that this node must release.
struct OwnArqs {
    /// Requests that hold, or may come to hold, a device for this guest on this node.
    bound: BTreeSet<ArqUuid>,
    free: BTreeSet<ArqUuid>,
}

impl OwnArqs {
    fn ours(self) -> BTreeSet<ArqUuid> {
        self.bound.into_iter().chain(self.free).collect()
    }
}

async fn own_arqs(
    client: &AcceleratorClient,
    request: &GuestRequest,
) -> Result<OwnArqs, AcceleratorError> {
    let (mut bound, mut free) = (BTreeSet::new(), BTreeSet::new());
    for (uuid, lookup) in fetch_arqs(client, request).await? {
        let is_listed = request.arqs().contains(&uuid);
        match lookup {
            ArqLookup::Gone => {}
            // Bound for this guest with an unreadable handle, or in an unknown state: no other host releases it.
            ArqLookup::Unreadable(_) if is_listed => {
                bound.insert(uuid);
            }
            ArqLookup::Unreadable(_) => {}
            ArqLookup::There(arq) => match arq.state.binding() {
                Some(binding) => {
                    let mine = binding.instance == request.uuid()
                        && binding.hostname == request.node().as_str();
                    if mine && is_listed && arq.state.phase() != ArqPhase::Deleting {
                        bound.insert(uuid);
                    }
                }
                None => {
                    free.insert(uuid);
                }
            },
        }
    }
    Ok(OwnArqs { bound, free })
}

fn drain_events(wait: &mut BindingWait, events: &mut Subscription) {
    while let Some(event) = events.try_next() {
        wait.event(event.instance, event.arq, event.status);
    }
}

/// Waits for `pause_now`, at least the minimum, or until an event about one of the requests.
async fn wait_for_event(wait: &mut BindingWait, events: &mut Subscription, pause_now: Duration) {
    let until = Instant::now() + pause_now;
    sleep(MIN_POLL_INTERVAL.min(pause_now)).await;
    loop {
        match timeout_at(until, events.next()).await {
            Ok(event) => {
                let relevance = wait.event(event.instance, event.arq, event.status);
                if relevance == EventRelevance::Awaited {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// An accelerator request that is bound on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundArq {
    pub arq: ArqUuid,
    pub guest: ConsumerUuid,
    /// The resource provider of the device.
    pub provider: ProviderUuid,
    /// The device's name, or the attach handle if the handle names no device.
    pub device: String,
}
