//! Tells a compute API what came of binds: the outbox's reader.
//!
//! A bind never waits for it and never fails by it. What was written is told once the receiver is there, after a crash too;
//! one POST for all that is due of a guest. A receiver that refuses for good, or a guest that nobody waits for any more, is
//! given up with a line in the log: whoever waits for a bind also asks for it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use berth_client::{ComputeClient, Disposition};
use berth_http::Timestamp;
use berth_store::SqlStore;
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, ServerExternalEvent};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::store::events::{Pending, Sent, SentOutcome, due};

/// The outbox is looked at this often even if nobody rings.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// An event is given up this long after it was written: by default a guest waits half as long (`arq_binding_timeout`).
const LIFETIME: Duration = Duration::from_secs(600);

/// Rung by a bind, heard by [`deliver_events`].
#[derive(Debug, Clone, Default)]
pub struct EventsBell(Arc<Notify>);

impl EventsBell {
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }
}

/// Sends what is in the outbox, and what comes, until `shutdown` is ready.
pub async fn deliver_events(
    store: SqlStore,
    receiver: ComputeClient,
    bell: EventsBell,
    shutdown: impl Future<Output = ()> + Send,
) {
    let mut shutdown = pin!(shutdown);
    loop {
        match send_due(&store, &receiver, shutdown.as_mut()).await {
            Round::Stopped => return,
            Round::Sent => {}
            Round::Idle => tokio::select! {
                () = &mut shutdown => return,
                () = bell.0.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            },
        }
    }
}

/// What a look at the outbox came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Something was sent: there may be more.
    Sent,
    /// Nothing is due.
    Idle,
    /// It is time to end.
    Stopped,
}

/// Sends what is due. A request to stop ends the wait for an answer, but an answer that came is always written down.
async fn send_due(
    store: &SqlStore,
    receiver: &ComputeClient,
    mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Round {
    let read = async {
        let mut tx = store.read().await?;
        due(&mut tx).await
    };
    let pending = match read.await {
        Ok(pending) => pending,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the outbox of events cannot be read");
            return Round::Idle;
        }
    };
    let mut by_guest: BTreeMap<Uuid, Vec<Pending>> = BTreeMap::new();
    for event in pending {
        by_guest.entry(event.instance).or_default().push(event);
    }
    let mut round = Round::Idle;
    for (instance, events) in by_guest {
        let outcome = tokio::select! {
            biased;
            outcome = send(receiver, instance, &events) => outcome,
            () = shutdown.as_mut() => return Round::Stopped,
        };
        let ids = events.iter().map(|event| event.id).collect();
        match store.write(&Sent { ids, outcome }).await {
            Ok(()) => round = Round::Sent,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "the outbox of events cannot be written");
            }
        }
    }
    round
}

async fn send(receiver: &ComputeClient, instance: Uuid, events: &[Pending]) -> SentOutcome {
    let body = events.iter().map(|event| ServerExternalEvent {
        name: ACCELERATOR_REQUEST_BOUND.to_owned(),
        server_uuid: event.instance,
        tag: Some(event.arq.to_string()),
        status: Some(event.status),
        code: None,
    });
    let Err(error) = receiver.external_events(body.collect()).await else {
        return SentOutcome::Done;
    };
    let attempts = events.iter().map(|event| event.attempts).max();
    let attempts = attempts.unwrap_or_default().saturating_add(1);
    let old = Timestamp::now().before(LIFETIME);
    let fresh = events.iter().any(|event| event.since > old);
    if error.disposition() == Disposition::Fatal || !fresh {
        tracing::warn!(%instance, %error, attempts, "events about accelerator requests are given up");
        return SentOutcome::Done;
    }
    tracing::debug!(%instance, %error, attempts, "events about accelerator requests are told again later");
    SentOutcome::Again {
        attempts,
        after: pause(attempts),
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
