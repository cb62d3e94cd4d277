//! Fault injection for HTTP: a tower service around any other one.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use berth_client::{HttpService, TransportError};
use berth_fault_injection::{EffectOutcome, Fault};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tower::Service;

use super::stage::{AbandonedEffect, EffectAction};
use super::{FaultStage, answers, route};

/// The most a client of the tests reads; an endless body is cut there.
const LIMIT: usize = 64 << 20;

type HttpResult = Result<Response<Bytes>, TransportError>;

/// Takes every request across a stage's gate.
#[derive(Clone)]
pub struct GatedHttp {
    inner: HttpService,
    stage: FaultStage,
    /// How long a request stays in the queue after its caller gave up.
    queue: Option<Duration>,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    /// The last answer to each reading request.
    last: HashMap<String, Response<Bytes>>,
    expired: HashSet<String>,
}

impl GatedHttp {
    /// The same service behind the stage's gate.
    #[must_use]
    pub fn around(inner: HttpService, stage: &FaultStage) -> HttpService {
        HttpService::new(Self {
            inner,
            stage: stage.clone(),
            queue: None,
            memory: Arc::default(),
        })
    }

    /// Wraps a service with a queue: a request may be executed this long after its caller gave up. Of all DELETE
    /// requests this applies only to those of allocations; a later DELETE of another object could delete a new one of
    /// the same name, and no caller could prevent that.
    #[must_use]
    pub fn around_a_queue(inner: HttpService, stage: &FaultStage, queue: Duration) -> HttpService {
        HttpService::new(Self {
            inner,
            stage: stage.clone(),
            queue: Some(queue),
            memory: Arc::default(),
        })
    }
}

impl Service<Request<Bytes>> for GatedHttp {
    type Response = Response<Bytes>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = HttpResult> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let http = self.clone();
        Box::pin(async move {
            let stage = http.stage.clone();
            stage.names().learn(request.body());
            let crossing = route::crossing(&request, stage.names());
            let exchange = Exchange {
                before: Mutex::default(),
                http,
                request,
            };
            let answer = stage.cross(&crossing, &exchange).await;
            if let Ok(answer) = &answer {
                stage.names().learn(answer.body());
            }
            answer
        })
    }
}

/// One request and what answered the same request the time before.
struct Exchange {
    http: GatedHttp,
    request: Request<Bytes>,
    before: Mutex<Option<Response<Bytes>>>,
}

impl Exchange {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.http
            .memory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> String {
        let token = self.request.headers().get("x-auth-token");
        let token = token.and_then(|token| token.to_str().ok());
        token.unwrap_or_default().to_owned()
    }

    fn is_login(&self) -> bool {
        self.request.uri().path().ends_with("/auth/tokens")
    }

    fn remember(&self, answer: &HttpResult) {
        if let (Ok(answer), &http::Method::GET) = (answer, self.request.method()) {
            let before = self
                .memory()
                .last
                .insert(self.request.uri().to_string(), answer.clone());
            *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        }
    }
}

impl EffectAction for Exchange {
    type Value = HttpResult;

    async fn perform(&self) -> HttpResult {
        if self.memory().expired.contains(&self.token()) {
            return Ok(answers::unauthorized());
        }
        let answer = self.http.inner.send(self.request.clone()).await;
        self.remember(&answer);
        answer
    }

    fn outcome(&self, answer: &HttpResult) -> EffectOutcome {
        match answer {
            Ok(answer) if answer.status() < StatusCode::BAD_REQUEST => {
                EffectOutcome::Done(answer.status().as_u16().to_string())
            }
            Ok(answer) => {
                let body: serde_json::Value =
                    serde_json::from_slice(answer.body()).unwrap_or_default();
                let code = body["errors"][0]["code"].as_str().unwrap_or_default();
                let text = format!("{} {code}", answer.status().as_u16());
                EffectOutcome::Failed(text.trim_end().to_owned())
            }
            Err(error) => EffectOutcome::Failed(error.kind().to_owned()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> HttpResult {
        if fault == Fault::TokenExpired && !self.is_login() {
            let token = self.token();
            self.memory().expired.insert(token);
        }
        if let Some(answer) = answers::refusal(fault, self.is_login()) {
            return Ok(answer);
        }
        Err(match fault {
            Fault::Late => TransportError::Timeout {
                after: Duration::from_mins(1),
            },
            _ => TransportError::Refused {
                peer: "placement:8778".to_owned(),
            },
        })
    }

    fn result_if_failed_after(&self, answer: HttpResult, fault: Fault) -> HttpResult {
        let answer = answer?;
        match fault {
            Fault::Stale => {
                let before = self
                    .before
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                Ok(before.unwrap_or(answer))
            }
            // An answer without a body is cut within its head.
            Fault::Truncated if answer.body().is_empty() => Err(closed()),
            Fault::Truncated => Ok(answer.map(|body| body.slice(..body.len() / 2))),
            Fault::WrongBody => Ok(answer.map(|_| Bytes::from_static(b"<html>\xff\xfe no JSON"))),
            Fault::EndlessBody => Err(TransportError::TooLarge { limit: LIMIT }),
            _ => Err(closed()),
        }
    }

    fn queue(&self) -> Option<Duration> {
        let is_delete = self.request.method() == http::Method::DELETE;
        let is_queued = !is_delete || self.request.uri().path().contains("/allocations/");
        self.http.queue.filter(|_| is_queued)
    }

    fn detached(&self) -> AbandonedEffect {
        let (http, request) = (self.http.inner.clone(), self.request.clone());
        // The caller no longer waits for the answer.
        Box::pin(async move { drop(http.send(request).await) })
    }
}

fn closed() -> TransportError {
    TransportError::Closed {
        reason: "connection reset by peer".to_owned(),
    }
}
