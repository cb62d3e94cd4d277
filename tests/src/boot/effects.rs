//! Records every effect between a conductor and its environment, in order. A test can kill the conductor, inject an
//! error or run other code at one of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::{HttpService, RouteTemplate, TransportError};
use bytes::Bytes;
use http::{Method, Request, Response, header};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::service_fn;

/// One side of an effect: before or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectSide {
    /// The number of the effect in this process run, from 1 on.
    pub at: usize,
    /// Whether its effect has happened.
    pub after: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootFault {
    /// The conductor is killed.
    Kill,
    /// The answer is an error, once.
    Error,
    /// The service answers 500 Internal Server Error and does nothing. For requests of a service.
    InternalError,
    /// The service answers 409 Conflict and does nothing. For requests of a service.
    Conflict,
    /// The request times out. The service performs it when [`ConductorEffects::perform_late`] is called.
    Late,
    /// The service performs the request twice, and answers the second time.
    Twice,
}

/// A planted bug in the conductor's care of ports, to test that it is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortBug {
    /// No port is deleted.
    KeepsPorts,
    /// No port is taken from its guest and host.
    KeepsBindings,
    /// Ports are changed whatever happened to them since they were read.
    IgnoresRevisions,
}

impl PortBug {
    /// What the conductor takes for the answer to a request that it does not send because of the bug. Other requests are sent,
    /// maybe changed.
    fn instead(self, route: &str, request: &mut Request<Bytes>) -> Option<Response<Bytes>> {
        if route != "/v2.0/ports/{port_id}" {
            return None;
        }
        let method = request.method().clone();
        match self {
            Self::KeepsPorts if method == Method::DELETE => Some(done(204, &Value::Null)),
            Self::KeepsBindings if method == Method::PUT && unbinds(request.body()) => {
                Some(done(200, &json!({"port": {}})))
            }
            Self::IgnoresRevisions => {
                request.headers_mut().remove(header::IF_MATCH);
                None
            }
            Self::KeepsPorts | Self::KeepsBindings => None,
        }
    }
}

/// Whether the body of a change takes a port from its guest.
fn unbinds(body: &Bytes) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["port"]["device_id"] == ""
}

/// The answer of an effect that fails.
pub(super) trait FaultAnswer {
    fn failed() -> Self;
}

impl FaultAnswer for Result<Response<Bytes>, TransportError> {
    fn failed() -> Self {
        Err(TransportError::Closed {
            reason: "connection reset by peer".to_owned(),
        })
    }
}

/// An answer of Neutron's.
fn done(status: u16, body: &Value) -> Response<Bytes> {
    let answer = Response::builder().status(status);
    let answer = answer.header("content-type", "application/json");
    answer.body(body.to_string().into()).expect("an answer")
}

fn refusal(status: u16, kind: &str, message: &str) -> Response<Bytes> {
    let error = json!({"NeutronError": {"type": kind, "message": message, "detail": ""}});
    done(status, &error)
}

/// Code that runs outside the conductor before the nth effect with a given prefix.
struct ConcurrentEvent {
    nth: usize,
    what: &'static str,
    happens: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// A request that a service performs after its caller has given it up.
type LateRequest = Pin<Box<dyn Future<Output = Result<Response<Bytes>, TransportError>> + Send>>;

#[derive(Default)]
struct ConductorEffectState {
    history: Vec<String>,
    /// The number of the current process run. Tasks that an earlier run left have no further effects.
    life: usize,
    fault: Option<(EffectSide, BootFault)>,
    dead: bool,
    late: Option<LateRequest>,
    meanwhile: Option<ConcurrentEvent>,
    /// A planted bug: intents are not written down.
    forgets_intents: bool,
    /// A second planted bug: members are never removed from server groups.
    keeps_members: bool,
    port_bug: Option<PortBug>,
}

/// The effects of a conductor. Clones share the state; the one of [`of_current_process`](Self::of_current_process) belongs
/// to the current process run of the conductor.
#[derive(Clone, Default)]
pub struct ConductorEffects {
    state: Arc<Mutex<ConductorEffectState>>,
    died: Arc<Notify>,
    life: usize,
}

impl ConductorEffects {
    fn state(&self) -> MutexGuard<'_, ConductorEffectState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a process run of the conductor, with at most one fault. The numbers of the effects start again at 1.
    pub fn begin(&self, fault: Option<(EffectSide, BootFault)>) {
        let mut state = self.state();
        state.life += 1;
        state.history.clear();
        state.fault = fault;
        state.dead = false;
    }

    /// Runs the code before the nth effect of this process run with this prefix; the effect waits for it.
    pub fn before_nth(
        &self,
        nth: usize,
        what: &'static str,
        happens: impl Future<Output = ()> + Send + 'static,
    ) {
        let happens = Box::pin(happens);
        self.state().meanwhile = Some(ConcurrentEvent { nth, what, happens });
    }

    /// Makes the latest effect fail before it is performed. Called by the code that [`before_nth`](Self::before_nth) runs.
    pub fn refuse_last(&self) {
        let mut state = self.state();
        let at = state.history.len();
        state.fault = Some((EffectSide { at, after: false }, BootFault::Error));
    }

    /// The effects of the current process run.
    #[must_use]
    pub fn of_current_process(&self) -> Self {
        let life = self.state().life;
        Self {
            life,
            ..self.clone()
        }
    }

    /// The effects of the current process run so far, in order.
    #[must_use]
    pub fn history(&self) -> Vec<String> {
        self.state().history.clone()
    }

    /// Plants a bug, to test that it is caught: steps act without a journal entry before.
    pub fn forget_intents(&self) {
        self.state().forgets_intents = true;
    }

    pub(super) fn forgets_intents(&self) -> bool {
        self.state().forgets_intents
    }

    /// Plants another bug: members are never removed from server groups.
    pub fn keep_members(&self) {
        self.state().keeps_members = true;
    }

    pub(super) fn keeps_members(&self) -> bool {
        self.state().keeps_members
    }

    /// Plants a bug in the care of ports.
    pub fn plant(&self, bug: PortBug) {
        self.state().port_bug = Some(bug);
    }

    /// Waits until the fault kills the conductor.
    pub async fn dies(&self) {
        loop {
            let died = self.died.notified();
            if self.state().dead {
                return;
            }
            died.await;
        }
    }

    /// Wraps a service, so that each request to it is an effect.
    #[must_use]
    pub fn in_front_of(&self, name: &'static str, http: HttpService) -> HttpService {
        let effects = self.clone();
        HttpService::new(service_fn(move |mut request: Request<Bytes>| {
            let (effects, http) = (effects.clone(), http.clone());
            async move {
                let route = request
                    .extensions()
                    .get::<RouteTemplate>()
                    .map_or("?", |it| it.0);
                let at = effects.next(format!("{name} {} {route}", request.method()));
                let answer = async {
                    let bug = effects.state().port_bug;
                    if let Some(answer) = bug.and_then(|bug| bug.instead(route, &mut request)) {
                        return Ok(answer);
                    }
                    match effects.remote_fault(at) {
                        Some(BootFault::InternalError) => {
                            Ok(refusal(500, "HTTPInternalServerError", "Request Failed"))
                        }
                        Some(BootFault::Conflict) => {
                            let message =
                                "There was a conflict when trying to complete your request.";
                            Ok(refusal(409, "HTTPConflict", message))
                        }
                        Some(BootFault::Late) => {
                            let http = http.clone();
                            let late = async move { http.send(request).await };
                            effects.state().late = Some(Box::pin(late));
                            let after = Duration::from_mins(1);
                            Err(TransportError::Timeout { after })
                        }
                        Some(BootFault::Twice) => {
                            http.send(request.clone()).await?;
                            http.send(request).await
                        }
                        _ => http.send(request).await,
                    }
                };
                effects.perform_at(at, answer).await
            }
        }))
    }

    /// The fault of a service that strikes at this effect.
    fn remote_fault(&self, at: usize) -> Option<BootFault> {
        let mut state = self.state();
        let here = EffectSide { at, after: false };
        let fault = state.fault.filter(|(point, fault)| {
            let is_remote = !matches!(fault, BootFault::Kill | BootFault::Error);
            is_remote && state.life == self.life && *point == here
        });
        if fault.is_some() {
            state.fault = None;
        }
        fault.map(|(_, fault)| fault)
    }

    /// Lets the service perform the request that timed out, if there is one. Returns whether there was one.
    pub async fn perform_late(&self) -> bool {
        let late = self.state().late.take();
        match late {
            Some(late) => late.await.is_ok(),
            None => false,
        }
    }

    /// Records the next effect. Returns its number.
    fn next(&self, what: String) -> usize {
        let mut state = self.state();
        if state.life == self.life && !state.dead {
            state.history.push(what);
        }
        state.history.len()
    }

    pub(super) async fn perform<T: FaultAnswer>(
        &self,
        what: String,
        effect: impl Future<Output = T>,
    ) -> T {
        let at = self.next(what);
        self.perform_at(at, effect).await
    }

    async fn perform_at<T: FaultAnswer>(&self, at: usize, effect: impl Future<Output = T>) -> T {
        if let Some(meanwhile) = self.meanwhile() {
            meanwhile.happens.await;
        }
        if self.strikes(EffectSide { at, after: false }).await {
            return T::failed();
        }
        let answer = effect.await;
        if self.strikes(EffectSide { at, after: true }).await {
            return T::failed();
        }
        answer
    }

    /// The code that runs before the latest effect.
    fn meanwhile(&self) -> Option<ConcurrentEvent> {
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
    async fn strikes(&self, here: EffectSide) -> bool {
        let dead = {
            let mut state = self.state();
            let present = state.life == self.life;
            match state.fault {
                Some((point, BootFault::Error)) if present && point == here => {
                    state.fault = None;
                    return true;
                }
                Some((point, BootFault::Kill)) if present && point == here => {
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
