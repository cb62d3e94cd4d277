//! Dispatches the events that services send about instances (`POST /v2.1/os-server-external-events`) to their
//! subscribers.
//!
//! Events are not stored. A caller subscribes first and queries the service afterwards, so it misses nothing. A subscriber whose
//! queue is full loses events; its next query returns the state anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_model::{ArqUuid, ConsumerUuid};
use berth_wire::compute::EventStatus;
use tokio::sync::mpsc;

/// Capacity of a subscriber's queue. Further events are dropped.
const QUEUE_CAPACITY: usize = 1024;

/// The bind of an accelerator request finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindEvent {
    pub instance: ConsumerUuid,
    pub arq: ArqUuid,
    pub status: EventStatus,
}

type Listeners = HashMap<ConsumerUuid, (u64, mpsc::Sender<BindEvent>)>;

/// The subscriptions, by instance. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ExternalEvents {
    listeners: Arc<Mutex<(u64, Listeners)>>,
}

impl ExternalEvents {
    /// Subscribes to the instance's events. A later subscription replaces an earlier one.
    #[must_use]
    pub fn subscribe(&self, instance: ConsumerUuid) -> Subscription {
        let (sender, events) = mpsc::channel(QUEUE_CAPACITY);
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

    /// Sends an event to its subscriber. Returns whether there is one.
    pub fn dispatch(&self, event: BindEvent) -> bool {
        let guard = self.locked();
        match guard.1.get(&event.instance) {
            Some((_, listener)) => {
                // A full queue already makes the subscriber query the service.
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

/// A subscription to one instance's events. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    instance: ConsumerUuid,
    number: u64,
    events: mpsc::Receiver<BindEvent>,
    all: ExternalEvents,
}

impl Subscription {
    /// Waits for the next event. Never returns once another subscription has replaced this one.
    pub async fn next(&mut self) -> BindEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// The next queued event, without waiting.
    pub fn try_next(&mut self) -> Option<BindEvent> {
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
