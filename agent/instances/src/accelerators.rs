//! A guest's accelerator requests: waiting until they are bound, giving them back, deleting them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_agent_journal::{BoundDevice, BoundDevices, GuestRequest};
use berth_client::{AcceleratorClient, AcceleratorError};
use berth_model::{ArqPhase, ArqState, ArqUuid, ConsumerUuid, Disposition, NodeName, ProviderUuid};
use tokio::time::{Instant, sleep, timeout_at};

use crate::binding_wait::{ArqAnswer, BindRefused, BindingWait, Next, SeenArq};
use crate::external_events::{ExternalEvents, Subscription};

/// The least time between two questions, however many events come.
const BREATH: Duration = Duration::from_millis(100);
/// The first pause after which the service is asked although no event came; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The accelerator service as guests need it.
#[derive(Clone)]
pub struct Accelerators {
    /// The service; none where `[cyborg]` names none.
    pub client: Option<AcceleratorClient>,
    /// What the service tells.
    pub events: ExternalEvents,
    /// `arq_binding_timeout`, 300 s.
    pub binding_timeout: Duration,
}

impl Accelerators {
    /// `arq_binding_timeout` where nothing is set.
    pub const BINDING_TIMEOUT: Duration = Duration::from_secs(300);

    /// Waits until all requests of the guest are bound. Subscribes before it asks, so that no event is missed.
    pub(super) async fn bound(&self, request: &GuestRequest) -> Result<BoundDevices, BindRefused> {
        if request.arqs().is_empty() {
            return Ok(BoundDevices::default());
        }
        let client = self.client.as_ref().ok_or(BindRefused::NoService)?;
        let mut events = self.events.subscribe(request.uuid());
        let began = Instant::now();
        let deadline = began + self.binding_timeout;
        let mut wait = BindingWait::new(request);
        let mut last = None;
        let mut pause = FIRST_PAUSE;
        loop {
            hear(&mut wait, &mut events);
            wait.asked();
            let asked = timeout_at(deadline, ask(client, request)).await;
            hear(&mut wait, &mut events);
            let next = match asked {
                Ok(Ok(answer)) => {
                    last = None;
                    wait.answered(&answer)
                }
                Ok(Err(error)) if error.disposition() == Disposition::Fatal => {
                    return Err(Box::new(error).into());
                }
                Ok(Err(error)) => {
                    last = Some(error.to_string());
                    wait.unanswered()
                }
                Err(_) => return Err(wait.late(began.elapsed(), last)),
            };
            let resting = match next {
                Next::Bound(devices) => return Ok(devices),
                Next::Refused(refused) => return Err(refused),
                Next::Ask => BREATH,
                Next::Wait => {
                    let resting = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    resting
                }
            };
            if timeout_at(deadline, rest(&mut wait, &mut events, resting))
                .await
                .is_err()
            {
                return Err(wait.late(began.elapsed(), last));
            }
        }
    }

    /// The devices that the guest's requests are bound to at this moment; one question, no waiting.
    pub(super) async fn bound_now(
        &self,
        request: &GuestRequest,
    ) -> Result<BoundDevices, BindRefused> {
        if request.arqs().is_empty() {
            return Ok(BoundDevices::default());
        }
        let client = self.client.as_ref().ok_or(BindRefused::NoService)?;
        let mut wait = BindingWait::new(request);
        wait.asked();
        let answer = ask(client, request).await.map_err(Box::new)?;
        match wait.answered(&answer) {
            Next::Bound(devices) => Ok(devices),
            Next::Refused(refused) => Err(refused),
            Next::Ask | Next::Wait => Err(wait.late(Duration::ZERO, None)),
        }
    }

    /// All requests that are bound on one of these nodes at this moment, whoever made them; one question for all requests that
    /// there are on all hosts, for the service tells them no other way. None where there is no service.
    pub(super) async fn bound_on(
        &self,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<Vec<BoundHere>, AcceleratorError> {
        let Some(client) = &self.client else {
            return Ok(Vec::new());
        };
        let mut here = Vec::new();
        // What makes no sense says neither where it is bound nor for whom.
        for arq in client.arqs().await?.into_iter().flat_map(|told| told.arq) {
            let ArqState::Bound(binding, handle) = &arq.state else {
                continue;
            };
            if nodes.iter().any(|node| node.as_str() == binding.hostname) {
                let device = BoundDevice::of(arq.uuid, handle);
                here.push(BoundHere {
                    arq: arq.uuid,
                    guest: binding.instance,
                    provider: binding.device_rp,
                    device: device.map_or_else(|_| handle.info.to_string(), |bound| bound.name()),
                });
            }
        }
        Ok(here)
    }

    /// Whether there is no service to ask.
    pub(super) fn is_absent(&self) -> bool {
        self.client.is_none()
    }

    /// Gives back what the guest's requests hold on this node; the requests stay.
    pub(super) async fn unbind(&self, request: &GuestRequest) -> Result<(), AcceleratorError> {
        let Some(client) = self.client.as_ref().filter(|_| !request.arqs().is_empty()) else {
            return Ok(());
        };
        let held = here(client, request).await?;
        if held.bound.is_empty() {
            return Ok(());
        }
        match client.unbind_arqs(&held.bound).await {
            Ok(()) => Ok(()),
            // It may have been done, in part or wholly, and what is done must not be asked for again.
            Err(error) if error.disposition() == Disposition::Fatal => Err(error),
            Err(error) => {
                let left = here(client, request).await?.bound;
                if left.is_empty() { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Deletes the guest's requests, but for those that are bound for another guest or on another node by now.
    pub(super) async fn delete(&self, request: &GuestRequest) -> Result<(), AcceleratorError> {
        let Some(client) = self.client.as_ref().filter(|_| !request.arqs().is_empty()) else {
            return Ok(());
        };
        for arq in here(client, request).await?.ours() {
            client.delete_arq(arq).await?;
        }
        Ok(())
    }
}

/// What the service has for the guest: each of its requests, and each other that is bound for it.
async fn ask(
    client: &AcceleratorClient,
    request: &GuestRequest,
) -> Result<ArqAnswer, AcceleratorError> {
    let mut answer = BTreeMap::new();
    let seen = |arq| match arq {
        Ok(arq) => SeenArq::There(arq),
        Err(reason) => SeenArq::Unreadable(reason),
    };
    for told in client.arqs_of_instance(request.uuid()).await? {
        answer.insert(told.uuid, seen(told.arq));
    }
    // One that is not bound for this guest is not in that list.
    for arq in request.arqs() {
        if !answer.contains_key(arq) {
            let told = client.arq(*arq).await?;
            answer.insert(*arq, told.map_or(SeenArq::Gone, |told| seen(told.arq)));
        }
    }
    Ok(answer)
}

/// The guest's requests that are this node's to end.
struct Here {
    /// They hold, or may come to hold, a device for this guest on this node.
    bound: BTreeSet<ArqUuid>,
    free: BTreeSet<ArqUuid>,
}

impl Here {
    fn ours(self) -> BTreeSet<ArqUuid> {
        self.bound.into_iter().chain(self.free).collect()
    }
}

async fn here(
    client: &AcceleratorClient,
    request: &GuestRequest,
) -> Result<Here, AcceleratorError> {
    let (mut bound, mut free) = (BTreeSet::new(), BTreeSet::new());
    for (uuid, seen) in ask(client, request).await? {
        let asked_for = request.arqs().contains(&uuid);
        match seen {
            SeenArq::Gone => {}
            // It is bound for this guest with a handle that makes no sense, or in a state that does: nobody else ends it.
            SeenArq::Unreadable(_) if asked_for => {
                bound.insert(uuid);
            }
            SeenArq::Unreadable(_) => {}
            SeenArq::There(arq) => match arq.state.binding() {
                Some(binding) => {
                    let mine = binding.instance == request.uuid()
                        && binding.hostname == request.node().as_str();
                    if mine && asked_for && arq.state.phase() != ArqPhase::Deleting {
                        bound.insert(uuid);
                    }
                }
                None => {
                    free.insert(uuid);
                }
            },
        }
    }
    Ok(Here { bound, free })
}

fn hear(wait: &mut BindingWait, events: &mut Subscription) {
    while let Some(event) = events.at_hand() {
        wait.event(event.instance, event.arq, event.status);
    }
}

/// Until an event about one of the requests, or for this long; a breath at least.
async fn rest(wait: &mut BindingWait, events: &mut Subscription, resting: Duration) {
    let until = Instant::now() + resting;
    sleep(BREATH.min(resting)).await;
    loop {
        match timeout_at(until, events.next()).await {
            Ok(event) => {
                let heard = wait.event(event.instance, event.arq, event.status);
                if heard == crate::binding_wait::Heard::Ours {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// An accelerator request that is bound on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundHere {
    pub arq: ArqUuid,
    pub guest: ConsumerUuid,
    /// The provider of the device.
    pub provider: ProviderUuid,
    /// The device's name; the handle, where there is no device behind it.
    pub device: String,
}
