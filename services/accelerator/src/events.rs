//! Tells compute APIs what came of binds: the outbox's reader.
//!
//! A bind never waits for it and never fails by it. What was written is told once the receiver is there, after a crash too;
//! one POST for all that is due of a guest. Each host's events have a journey of their own: one that does not answer keeps no
//! other waiting. A receiver that refuses for good, or a guest that nobody waits for any more, is given up with a line in the
//! log: whoever waits for a bind also asks for it.
//!
//! Where several processes send what is in one database, each takes a guest's events before it sends them, by making them due
//! later; a process that ends before it wrote what came of it has them sent once more by another.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_client::{ComputeClient, Disposition, EventsError};
use berth_store::{Moment, SqlStore};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, ServerExternalEvent};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::store::Tables;
use crate::store::events::{Pending, Sent, SentError, SentOutcome, Take, due};

/// The outbox is looked at this often even if nobody rings.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// An event is given up this long after it was written: by default a guest waits half as long (`arq_binding_timeout`).
const LIFETIME: Duration = Duration::from_secs(600);
/// How long the receiver may take for an answer, however its client is set.
const LONGEST_POST: Duration = Duration::from_secs(25);
/// For how long a guest's events are one process's, where others send too: longer than a POST and what is written after it. Should
/// the process end, another takes them then.
const TAKEN: Duration = Duration::from_secs(60);
/// How many hosts are told at once.
const AT_ONCE: usize = 64;

/// Rung by a bind, heard by [`deliver_events`].
#[derive(Debug, Clone, Default)]
pub struct EventsBell(Arc<Notify>);

impl EventsBell {
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }
}

/// Who is told of binds.
pub trait EventReceivers: Send + Sync + 'static {
    /// The receiver of what is bound on a host, by the host's name in binds; none where there is none.
    fn of_host(&self, host: &str) -> Option<ComputeClient>;
}

/// One for all hosts: Nova.
impl EventReceivers for ComputeClient {
    fn of_host(&self, _: &str) -> Option<ComputeClient> {
        Some(self.clone())
    }
}

/// Sends what is in the outbox, and what comes, until `shutdown` is ready.
pub async fn deliver_events(
    store: SqlStore,
    receivers: impl EventReceivers,
    bell: EventsBell,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tables = Tables::of(store);
    let mut shutdown = pin!(shutdown);
    let (stop, stopped) = watch::channel(false);
    let mut sending = Sending::default();
    loop {
        for (host, guests) in waiting(&tables).await {
            if sending.hosts.len() == AT_ONCE {
                break;
            }
            if sending.hosts.insert(host.clone()) {
                let receiver = receivers.of_host(&host);
                let host = OfHost {
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
            () = bell.0.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    // An answer that came is always written down.
    stop.send_replace(true);
    while sending.tasks.join_next().await.is_some() {}
}

/// Hosts that are being told. Dropped, that ends.
#[derive(Default)]
struct Sending {
    tasks: JoinSet<String>,
    hosts: BTreeSet<String>,
}

impl Sending {
    async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(host)) => {
                self.hosts.remove(&host);
            }
            // A panic has been told already; whose it was is not known.
            Some(Err(_)) | None => self.hosts.clear(),
        }
    }
}

/// What is due, by host and guest.
async fn waiting(tables: &Tables) -> BTreeMap<String, BTreeMap<Uuid, Vec<Pending>>> {
    let read = async {
        let mut tx = tables.read().await?;
        due(&mut tx).await
    };
    let pending = read.await.unwrap_or_else(|error| {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "the outbox of events cannot be read");
        Vec::new()
    });
    let mut hosts: BTreeMap<String, BTreeMap<Uuid, Vec<Pending>>> = BTreeMap::new();
    for event in pending {
        let guests = hosts.entry(event.host.clone()).or_default();
        guests.entry(event.instance).or_default().push(event);
    }
    hosts
}

/// One host, and who is told of it.
struct OfHost {
    tables: Tables,
    receiver: Option<ComputeClient>,
    host: String,
}

impl OfHost {
    /// Sends what is due of its guests; the host. A request to stop ends the wait for an answer.
    async fn send(
        self,
        guests: BTreeMap<Uuid, Vec<Pending>>,
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
                // What is due still would be sent again at once.
                tokio::select! {
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
                break;
            }
            if *stopped.borrow() {
                break;
            }
        }
        self.host
    }

    /// Sends what is due of one guest, unless another process does.
    async fn send_of(
        &self,
        instance: Uuid,
        mut events: Vec<Pending>,
        away: &mut bool,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<(), SentError> {
        if self.tables.are_shared() {
            let take = Take {
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
            outcome = self.tell(instance, &events, away) => outcome,
            _ = stopped.wait_for(|stopped| *stopped) => SentOutcome::GivenBack,
        };
        match outcome {
            SentOutcome::GivenBack if !self.tables.are_shared() => Ok(()),
            outcome => self.tables.write(&Sent { events, outcome }).await,
        }
    }

    /// Tells what is due of one guest. Who gave no answer about one is not asked about the next: `away`.
    async fn tell(&self, instance: Uuid, events: &[Pending], away: &mut bool) -> SentOutcome {
        let host = &self.host;
        let Some(receiver) = &self.receiver else {
            tracing::warn!(%instance, host, "events about accelerator requests are given up: nobody is known to tell of this host");
            return SentOutcome::Done;
        };
        let attempts = events.iter().map(|event| event.attempts).max();
        let attempts = attempts.unwrap_or_default().saturating_add(1);
        let again = SentOutcome::Again {
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
        let old = Moment::now().before(LIFETIME);
        let fresh = events.iter().any(|event| event.since > old);
        let told = timeout(LONGEST_POST, receiver.external_events(body.collect())).await;
        let Ok(told) = told else {
            *away = true;
            if !fresh {
                tracing::warn!(%instance, host, attempts, "events about accelerator requests are given up: their receiver gives no answer");
                return SentOutcome::Done;
            }
            tracing::debug!(%instance, host, attempts, "the receiver of events gives no answer; it is told again later");
            return again;
        };
        let Err(error) = told else {
            return SentOutcome::Done;
        };
        if error.disposition() == Disposition::Fatal || !fresh {
            tracing::warn!(%instance, host, %error, attempts, "events about accelerator requests are given up");
            return SentOutcome::Done;
        }
        *away = matches!(error, EventsError::Call(_));
        tracing::debug!(%instance, host, %error, attempts, "events about accelerator requests are told again later");
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
