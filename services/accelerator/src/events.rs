//! Delivers events about binds to compute APIs: the reader of the outbox.
//!
//! A bind never waits for delivery and never fails because of it. An event is delivered once its receiver is reachable,
//! also after a crash, with one POST for all due events of a guest. Each host has a task of its own, so an unreachable
//! receiver does not delay others. Events are given up, with a log line, if the receiver refuses them permanently or if
//! they are too old. That is harmless: a guest that waits for a bind also polls.
//!
//! If several processes share a database, each claims a guest's events by postponing their due time before it sends
//! them. If the process dies before it stores the result, another process sends them again.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_client::{ComputeClient, Disposition, EventsError};
use berth_store::{SqlStore, SqlTimestamp};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, ServerExternalEvent};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::store::AcceleratorTables;
use crate::store::events::{
    ClaimEvents, DeliveryOutcome, DeliveryRecordError, PendingEvent, RecordDelivery, due,
};

/// The polling interval of the outbox.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// An event is given up at this age. By default a guest waits half as long (`arq_binding_timeout`).
const LIFETIME: Duration = Duration::from_secs(600);
/// The timeout of one POST, whatever its client's options.
const LONGEST_POST: Duration = Duration::from_secs(25);
/// How long a process's claim on a guest's events lasts if several processes send: longer than a POST
/// and storing its result.
const TAKEN: Duration = Duration::from_secs(60);
/// The number of hosts served concurrently.
const AT_ONCE: usize = 64;

/// Notified by a bind; the waiter is [`deliver_events`].
#[derive(Debug, Clone, Default)]
pub struct EventNotifier(Arc<Notify>);

impl EventNotifier {
    pub(crate) fn notify(&self) {
        self.0.notify_one();
    }
}

/// Finds the receiver of events.
pub trait EventReceivers: Send + Sync + 'static {
    /// The compute API for a host, by the host's name in binds; `None` if there is none.
    fn of_host(&self, host: &str) -> Option<ComputeClient>;
}

/// One for all hosts: Nova.
impl EventReceivers for ComputeClient {
    fn of_host(&self, _: &str) -> Option<ComputeClient> {
        Some(self.clone())
    }
}

/// Delivers events from the outbox until `shutdown` resolves.
pub async fn deliver_events(
    store: SqlStore,
    receivers: impl EventReceivers,
    notifier: EventNotifier,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tables = AcceleratorTables::of(store);
    let mut shutdown = pin!(shutdown);
    let (stop, stopped) = watch::channel(false);
    let mut sending = DeliveryTasks::default();
    loop {
        for (host, guests) in waiting(&tables).await {
            if sending.hosts.len() == AT_ONCE {
                break;
            }
            if sending.hosts.insert(host.clone()) {
                let receiver = receivers.of_host(&host);
                let host = HostDelivery {
                    tables: tables.clone(),
                    receiver,
                    host,
                };
                sending.tasks.spawn(host.send(guests, stopped.clone()));
            }
        }
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = sending.ended(), if !sending.tasks.is_empty() => {}
            () = notifier.0.notified() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
    // An answer that has arrived is always stored.
    stop.send_replace(true);
    while sending.tasks.join_next().await.is_some() {}
}

/// The hosts with a running delivery task. Dropping it stops the tasks.
#[derive(Default)]
struct DeliveryTasks {
    tasks: JoinSet<String>,
    hosts: BTreeSet<String>,
}

impl DeliveryTasks {
    async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(host)) => {
                self.hosts.remove(&host);
            }
            // The panic is already logged; which host it was is unknown.
            Some(Err(_)) | None => self.hosts.clear(),
        }
    }
}

/// The due events, by host and guest.
async fn waiting(
    tables: &AcceleratorTables,
) -> BTreeMap<String, BTreeMap<Uuid, Vec<PendingEvent>>> {
    let read = async {
        let mut tx = tables.read().await?;
        due(&mut tx).await
    };
    let pending = read.await.unwrap_or_else(|error| {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "the outbox of events cannot be read");
        Vec::new()
    });
    let mut hosts: BTreeMap<String, BTreeMap<Uuid, Vec<PendingEvent>>> = BTreeMap::new();
    for event in pending {
        let guests = hosts.entry(event.host.clone()).or_default();
        guests.entry(event.instance).or_default().push(event);
    }
    hosts
}

/// The delivery to one host.
struct HostDelivery {
    tables: AcceleratorTables,
    receiver: Option<ComputeClient>,
    host: String,
}

impl HostDelivery {
    /// Sends the due events of a host's guests; returns the host. Shutdown interrupts waiting for an answer.
    async fn send(
        self,
        guests: BTreeMap<Uuid, Vec<PendingEvent>>,
        mut stopped: watch::Receiver<bool>,
    ) -> String {
        let mut away = false;
        for (instance, events) in guests {
            if let Err(error) = self
                .send_of(instance, events, &mut away, &mut stopped)
                .await
            {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the outbox of events cannot be written"
                );
                // Without this pause, events that are still due would be sent again at once.
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                }
                break;
            }
            if *stopped.borrow() {
                break;
            }
        }
        self.host
    }

    /// Sends the due events of one guest, unless another process has claimed them.
    async fn send_of(
        &self,
        instance: Uuid,
        mut events: Vec<PendingEvent>,
        away: &mut bool,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), DeliveryRecordError> {
        if self.tables.are_shared() {
            let take = ClaimEvents {
                events: &events,
                lasts: TAKEN,
            };
            let taken = self.tables.write(&take).await?;
            events.retain(|event| taken.contains(&event.id));
            if events.is_empty() {
                return Ok(());
            }
        }
        let outcome = tokio::select! {
            biased;
            outcome = self.post(instance, &events, away) => outcome,
            _ = stopped.wait_for(|stopped| *stopped) => DeliveryOutcome::Released,
        };
        match outcome {
            DeliveryOutcome::Released if !self.tables.are_shared() => Ok(()),
            outcome => self.tables.write(&RecordDelivery { events, outcome }).await,
        }
    }

    /// POSTs the due events of one guest. Sets `away` if the receiver did not answer, so that its
    /// other guests are skipped.
    async fn post(
        &self,
        instance: Uuid,
        events: &[PendingEvent],
        away: &mut bool,
    ) -> DeliveryOutcome {
        let host = &self.host;
        let Some(receiver) = &self.receiver else {
            tracing::warn!(%instance, host, "accelerator request events given up: no receiver is known for this host");
            return DeliveryOutcome::Done;
        };
        let attempts = events.iter().map(|event| event.attempts).max();
        let attempts = attempts.unwrap_or_default().saturating_add(1);
        let again = DeliveryOutcome::Again {
            attempts,
            after: pause(attempts),
        };
        if *away {
            return again;
        }
        let body = events.iter().map(|event| ServerExternalEvent {
            name: ACCELERATOR_REQUEST_BOUND.to_owned(),
            server_uuid: event.instance,
            tag: Some(event.arq.to_string()),
            status: Some(event.status),
            code: None,
        });
        let old = SqlTimestamp::now().before(LIFETIME);
        let fresh = events.iter().any(|event| event.since > old);
        let answer = timeout(LONGEST_POST, receiver.external_events(body.collect())).await;
        let Ok(answer) = answer else {
            *away = true;
            if !fresh {
                tracing::warn!(%instance, host, attempts, "accelerator request events given up: the receiver does not answer");
                return DeliveryOutcome::Done;
            }
            tracing::debug!(%instance, host, attempts, "sending accelerator request events failed: no answer; retrying");
            return again;
        };
        let Err(error) = answer else {
            return DeliveryOutcome::Done;
        };
        if error.disposition() == Disposition::Fatal || !fresh {
            tracing::warn!(%instance, host, %error, attempts, "accelerator request events given up");
            return DeliveryOutcome::Done;
        }
        *away = matches!(error, EventsError::Call(_));
        tracing::debug!(%instance, host, %error, attempts, "sending accelerator request events failed; retrying");
        again
    }
}

/// 1 s, 2 s, 4 s, ... at most [`LONGEST_PAUSE`].
fn pause(attempts: u32) -> Duration {
    let seconds = 1_u64 << attempts.saturating_sub(1).min(6);
    Duration::from_secs(seconds).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<u64> = [1, 2, 3, 6, 7, 40].map(|n| pause(n).as_secs()).to_vec();
        assert_eq!(pauses, [1, 2, 4, 32, 60, 60]);
    }
}
