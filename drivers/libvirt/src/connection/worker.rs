//! The thread's side: it holds the open connection, answers calls, and looks for libvirtd again when it went away.

use std::cell::{OnceCell, RefCell};
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use berth_virt::HostEvent;
use virt::connect::Connect;

use super::events::Registrations;
use super::{Call, ConnectionError, Looks, event_loop};
use crate::observe::SteadyFacts;
use crate::watch::Subscribers;

/// Seconds between two signs of life asked of libvirtd, and how many may be missed before the connection counts as broken.
const KEEPALIVE: (i32, u32) = (5, 3);
/// The shortest and the longest pause between two looks for a libvirtd that went away.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

#[derive(Debug)]
pub(crate) struct Session {
    // Dropped first: its callbacks are taken back while the connection is still held.
    _events: Registrations,
    connect: Connect,
    steady: OnceCell<SteadyFacts>,
    /// Held by whoever waits for what is being done.
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
        // Only connections to a daemon have keepalives; the others cannot hang on one.
        let _ = connect.set_keep_alive(KEEPALIVE.0, KEEPALIVE.1);
        Ok(Self {
            _events: Registrations::new(&connect, subscribers).map_err(refused)?,
            connect,
            steady: OnceCell::new(),
            waits: RefCell::default(),
        })
    }

    /// libvirt's connection. It must not leave the closure it is used in.
    pub(crate) fn connect(&self) -> &Connect {
        &self.connect
    }

    /// What cannot change while the connection lives, read once.
    pub(crate) fn steady(&self) -> &OnceCell<SteadyFacts> {
        &self.steady
    }

    /// Takes up a call, for whoever holds this.
    pub(super) fn taken_up(&self, waits: Weak<()>) -> &Self {
        self.waits.replace(waits);
        self
    }

    /// Whether anybody still waits for what is being done. Who gave up may have undone it by now, so nothing more may be made.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waits.borrow().strong_count() > 0
    }

    /// Whether libvirt still takes it for open.
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
    /// The pause before the next look for a libvirtd that was there and went away.
    looking: Option<Duration>,
    looks: Looks,
}

impl Worker {
    pub(super) fn new(uri: &str, subscribers: Subscribers, looks: Looks) -> Self {
        Self {
            uri: uri.to_owned(),
            subscribers,
            session: None,
            looking: None,
            looks,
        }
    }

    /// Answers calls until nobody can make any more.
    pub(super) fn run(mut self, calls: &Receiver<Call>) {
        loop {
            match self.next(calls) {
                Ok(call) => call(&mut self),
                Err(RecvTimeoutError::Timeout) => self.look(),
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

    /// The open connection, opened (again) where it has to be.
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

    /// One more look for libvirtd. That it is back is news: what happened meanwhile was not told.
    fn look(&mut self) {
        let looks = self.looks.clone();
        if looks.look(|| self.session().is_ok()) {
            self.subscribers.publish(HostEvent::Unknown);
        } else {
            self.looking = self.looking.map(|pause| (pause * 2).min(PAUSE.1));
        }
    }
}
