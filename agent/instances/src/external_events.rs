//! What services tell about guests (`POST /v2.1/os-server-external-events`), handed to whoever waits for it.
//!
//! Nothing is kept for those who do not listen yet: they subscribe first and ask afterwards. A subscriber that does not
//! keep up loses events, which its next question makes good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_model::{ArqUuid, ConsumerUuid};
use berth_wire::compute::EventStatus;
use tokio::sync::mpsc;

/// How many events wait for a subscriber.
const WAITING: usize = 1024;

/// The bind of an accelerator request came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindEvent {
    pub instance: ConsumerUuid,
    pub arq: ArqUuid,
    pub status: EventStatus,
}

type Listeners = HashMap<ConsumerUuid, (u64, mpsc::Sender<BindEvent>)>;

/// Who listens for whose events. Clones are one.
#[derive(Debug, Clone, Default)]
pub struct ExternalEvents {
    listeners: Arc<Mutex<(u64, Listeners)>>,
}

impl ExternalEvents {
    /// Listens for a guest's events from now on. A later subscription takes the place of an earlier one.
    #[must_use]
    pub fn subscribe(&self, instance: ConsumerUuid) -> Subscription {
        let (sender, events) = mpsc::channel(WAITING);
        let mut guard = self.locked();
        guard.0 += 1;
        let number = guard.0;
        guard.1.insert(instance, (number, sender));
        Subscription {
            instance,
            number,
            events,
            all: self.clone(),
        }
    }

    /// Hands an event on; whether anybody listens.
    pub fn tell(&self, event: BindEvent) -> bool {
        let guard = self.locked();
        match guard.1.get(&event.instance) {
            Some((_, listener)) => {
                // Full: the listener has enough to ask about.
                listener.try_send(event).ok();
                true
            }
            None => false,
        }
    }

    fn locked(&self) -> MutexGuard<'_, (u64, Listeners)> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest's events, from the subscription on. Dropped, nobody listens any more.
#[derive(Debug)]
pub struct Subscription {
    instance: ConsumerUuid,
    number: u64,
    events: mpsc::Receiver<BindEvent>,
    all: ExternalEvents,
}

impl Subscription {
    /// The next event; never, where another took this one's place.
    pub async fn next(&mut self) -> BindEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// The next event that is here already.
    pub fn at_hand(&mut self) -> Option<BindEvent> {
        self.events.try_recv().ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut guard = self.all.locked();
        let own = guard.1.get(&self.instance);
        if own.is_some_and(|(number, _)| *number == self.number) {
            guard.1.remove(&self.instance);
        }
    }
}
