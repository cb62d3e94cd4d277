//! Every crossing between a conductor and the world, in order; one of them may be where it dies, or where an answer is an error.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_client::{HttpService, RouteTemplate, TransportError};
use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::Notify;
use tower::service_fn;

/// A side of a crossing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Which crossing of this life, from 1 on.
    pub at: usize,
    /// Whether its effect has happened.
    pub after: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The conductor is killed.
    Kill,
    /// The answer is an error, once.
    Error,
}

/// What is answered by a crossing that fails.
pub(super) trait Fails {
    fn failed() -> Self;
}

impl Fails for Result<Response<Bytes>, TransportError> {
    fn failed() -> Self {
        Err(TransportError::Closed {
            reason: "connection reset by peer".to_owned(),
        })
    }
}

/// What happens beside the conductor, before its nth crossing of those that begin so.
struct Meanwhile {
    nth: usize,
    what: &'static str,
    happens: Pin<Box<dyn Future<Output = ()> + Send>>,
}

#[derive(Default)]
struct State {
    history: Vec<String>,
    /// Which life this is: what an earlier one left running acts no more.
    life: usize,
    fault: Option<(Point, Fault)>,
    dead: bool,
    meanwhile: Option<Meanwhile>,
    /// A planted bug: intents are not written down.
    forgets_intents: bool,
    /// Another: nobody is taken out of a server group.
    keeps_members: bool,
}

/// The crossings of one life of a conductor.
#[derive(Clone, Default)]
pub struct Crossings {
    state: Arc<Mutex<State>>,
    died: Arc<Notify>,
    life: usize,
}

impl Crossings {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a life, with a fault in it perhaps.
    pub fn begin(&self, fault: Option<(Point, Fault)>) {
        let mut state = self.state();
        state.life += 1;
        state.history.clear();
        state.fault = fault;
        state.dead = false;
    }

    /// Does this before the nth crossing of those of this life that begin so, which waits for it.
    pub fn before_nth(
        &self,
        nth: usize,
        what: &'static str,
        happens: impl Future<Output = ()> + Send + 'static,
    ) {
        let happens = Box::pin(happens);
        self.state().meanwhile = Some(Meanwhile { nth, what, happens });
    }

    /// What crosses before the other side does not arrive there: to be said by what happens before it.
    pub fn refuse_last(&self) {
        let mut state = self.state();
        let at = state.history.len();
        state.fault = Some((Point { at, after: false }, Fault::Error));
    }

    /// Those of the present life.
    #[must_use]
    pub fn present(&self) -> Self {
        let life = self.state().life;
        Self {
            life,
            ..self.clone()
        }
    }

    /// What this life crossed so far.
    #[must_use]
    pub fn history(&self) -> Vec<String> {
        self.state().history.clone()
    }

    /// Plants a bug, to see that it is caught: steps act without a word in the journal before.
    pub fn forget_intents(&self) {
        self.state().forgets_intents = true;
    }

    pub(super) fn forgets_intents(&self) -> bool {
        self.state().forgets_intents
    }

    /// Plants another: nobody is taken out of a server group.
    pub fn keep_members(&self) {
        self.state().keeps_members = true;
    }

    pub(super) fn keeps_members(&self) -> bool {
        self.state().keeps_members
    }

    /// Until the conductor is killed.
    pub async fn dies(&self) {
        loop {
            let died = self.died.notified();
            if self.state().dead {
                return;
            }
            died.await;
        }
    }

    /// The same service behind these crossings.
    #[must_use]
    pub fn before(&self, name: &'static str, http: HttpService) -> HttpService {
        let crossings = self.clone();
        HttpService::new(service_fn(move |request: Request<Bytes>| {
            let (crossings, http) = (crossings.clone(), http.clone());
            async move {
                let route = request
                    .extensions()
                    .get::<RouteTemplate>()
                    .map_or("?", |it| it.0);
                let what = format!("{name} {} {route}", request.method());
                crossings.cross(what, http.send(request)).await
            }
        }))
    }

    pub(super) async fn cross<T: Fails>(&self, what: String, effect: impl Future<Output = T>) -> T {
        let at = {
            let mut state = self.state();
            if state.life == self.life && !state.dead {
                state.history.push(what);
            }
            state.history.len()
        };
        if let Some(meanwhile) = self.meanwhile() {
            meanwhile.happens.await;
        }
        if self.strikes(Point { at, after: false }).await {
            return T::failed();
        }
        let answer = effect.await;
        if self.strikes(Point { at, after: true }).await {
            return T::failed();
        }
        answer
    }

    /// What happens before the crossing that came last.
    fn meanwhile(&self) -> Option<Meanwhile> {
        let mut state = self.state();
        let last = state.history.last()?;
        let is_due = state.meanwhile.as_ref().is_some_and(|meanwhile| {
            let alike = |what: &&String| what.starts_with(meanwhile.what);
            let so_far = state.history.iter().filter(alike).count();
            alike(&last) && so_far == meanwhile.nth
        });
        match is_due {
            true => state.meanwhile.take(),
            false => None,
        }
    }

    /// Whether an error strikes here; never returns where the conductor is killed.
    async fn strikes(&self, here: Point) -> bool {
        let dead = {
            let mut state = self.state();
            let present = state.life == self.life;
            match state.fault {
                Some((point, Fault::Error)) if present && point == here => {
                    state.fault = None;
                    return true;
                }
                Some((point, Fault::Kill)) if present && point == here => {
                    state.dead = true;
                    self.died.notify_waiters();
                }
                _ => {}
            }
            state.dead || !present
        };
        if dead {
            std::future::pending::<()>().await;
        }
        false
    }
}
