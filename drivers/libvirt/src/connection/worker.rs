//! The worker thread of a connection: it owns the open connection, runs calls, and reconnects to a restarted libvirtd.

use std::cell::{OnceCell, RefCell};
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use berth_virt::HostEvent;
use virt::connect::Connect;

use super::events::Registrations;
use super::{Call, ConnectionError, ReconnectCounter, event_loop};
use crate::observe::SteadyFacts;
use crate::watch::Subscribers;

/// The keepalive interval in seconds, and how many may be missed before the connection counts as broken.
const KEEPALIVE: (i32, u32) = (5, 3);
/// The minimum and maximum delay between reconnection attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

#[derive(Debug)]
pub(crate) struct Session {
    // Dropped first, so that the callbacks are unregistered while the connection exists.
    _events: Registrations,
    connect: Connect,
    steady: OnceCell<SteadyFacts>,
    /// Held by the caller that waits for the current work.
    waits: RefCell<Weak<()>>,
}

impl Session {
    fn open(uri: &str, subscribers: &Subscribers) -> Result<Self, ConnectionError> {
        event_loop::start()?;
        let refused = |source| ConnectionError::Open {
            uri: uri.to_owned(),
            source,
        };
        let connect = Connect::open(Some(uri)).map_err(refused)?;
        // Only connections to a daemon have keepalives; others cannot hang.
        let _ = connect.set_keep_alive(KEEPALIVE.0, KEEPALIVE.1);
        Ok(Self {
            _events: Registrations::new(&connect, subscribers).map_err(refused)?,
            connect,
            steady: OnceCell::new(),
            waits: RefCell::default(),
        })
    }

    /// The libvirt connection. It must not leave the closure that uses it.
    pub(crate) fn connect(&self) -> &Connect {
        &self.connect
    }

    /// Facts that cannot change while the connection lives, read once.
    pub(crate) fn steady(&self) -> &OnceCell<SteadyFacts> {
        &self.steady
    }

    /// Starts a call on behalf of the holder of `waits`.
    pub(super) fn check_slot(&self, waits: Weak<()>) -> &Self {
        self.waits.replace(waits);
        self
    }

    /// Whether the caller is still waiting. A caller that gave up may have undone the work, so nothing new
    /// may be created then.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waits.borrow().strong_count() > 0
    }

    /// Whether libvirt considers it open.
    pub(crate) fn is_alive(&self) -> bool {
        self.connect.is_alive().unwrap_or(false)
    }
}

/// The state of the connection's thread.
#[derive(Debug)]
pub(super) struct Worker {
    uri: String,
    subscribers: Subscribers,
    session: Option<Session>,
    /// The delay before the next reconnection attempt.
    looking: Option<Duration>,
    reconnects: ReconnectCounter,
}

impl Worker {
    pub(super) fn new(uri: &str, subscribers: Subscribers, reconnects: ReconnectCounter) -> Self {
        Self {
            uri: uri.to_owned(),
            subscribers,
            session: None,
            looking: None,
            reconnects,
        }
    }

    /// Runs calls until all senders are gone.
    pub(super) fn run(mut self, calls: &Receiver<Call>) {
        loop {
            match self.next(calls) {
                Ok(call) => call(&mut self),
                Err(RecvTimeoutError::Timeout) => self.check_connection(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn next(&self, calls: &Receiver<Call>) -> Result<Call, RecvTimeoutError> {
        match self.looking {
            Some(pause) => calls.recv_timeout(pause),
            None => calls.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// The open connection; connects first if necessary.
    pub(super) fn session(&mut self) -> Result<&Session, ConnectionError> {
        if let Some(broken) = self.session.take_if(|session| !session.is_alive()) {
            self.looking = Some(PAUSE.0);
            drop(broken);
        }
        if self.session.is_none() {
            self.session = Some(Session::open(&self.uri, &self.subscribers)?);
            self.looking = None;
        }
        Ok(self.session.as_ref().expect("it was opened above"))
    }

    /// Tries to reconnect. Success is an event, because events in between were lost.
    fn check_connection(&mut self) {
        let reconnects = self.reconnects.clone();
        if reconnects.count(|| self.session().is_ok()) {
            self.subscribers.publish(HostEvent::Unknown);
        } else {
            self.looking = self.looking.map(|pause| (pause * 2).min(PAUSE.1));
        }
    }
}
