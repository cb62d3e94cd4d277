//! Routes of the agent itself in the admin API. Most responses come from the state that the service loop published;
//! only a tick, disabling and enabling are sent to the loop.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request as HttpRequest, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use berth_agent_tracker::disabled::{DisabledByOperator, DisabledError};
use berth_model::error_chain;
use berth_serve::{SubjectName, TlsClient};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::access::{Access, AccessDecision, Peer};
use crate::body::{
    API, ConfigBody, DisableBody, DisabledBody, HealthBody, PlanBody, STATE_FILES, StateBody,
    TickBody,
};
use crate::metrics_page::RenderMetrics;
use crate::refusal::refusal;
use crate::requests::{AgentRequest, TickOutcome};
use crate::state::{AgentState, States};

/// Largest request body in bytes.
pub(super) const BODY_LIMIT: usize = 16 << 10;

/// How long a request waits for its cycle.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// State of the handlers.
#[derive(Clone)]
pub(super) struct AdminContext {
    pub(super) states: States,
    pub(super) metrics: Arc<dyn RenderMetrics>,
    pub(super) requests: mpsc::Sender<AgentRequest>,
}

impl AdminContext {
    fn state(&self) -> Arc<AgentState> {
        Arc::clone(&self.states.borrow())
    }
}

/// Method, path and description of each route, for the generated documentation.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/healthz",
        "200 if the agent is healthy, else 503. The body lists the current findings, the most severe first.",
    ),
    (
        "GET",
        "/metrics",
        "Metrics in Prometheus' text format; see [metrics](metrics.md).",
    ),
    (
        "GET",
        "/v1/state",
        "Phase, driver, whether the host is disabled. For each node: root provider, plan state, last cycle, held units, last known provider tree.",
    ),
    (
        "GET",
        "/v1/plan",
        "For each node the last cycle, and the last cycle that changed something, as text and as lists of providers.",
    ),
    (
        "GET",
        "/v1/config",
        "The current configuration by option name; secrets are masked.",
    ),
    (
        "POST",
        "/v1/tick",
        "Starts a cycle over all nodes, including those that wait after a failure, and waits for the result. 202: the cycle is still running after a minute.",
    ),
    (
        "PUT",
        "/v1/disabled",
        "Disables the host for new guests (COMPUTE_STATUS_DISABLED), also after a restart. Body `{\"reason\": \"...\"}`. Waits until this is reported to Placement; a failed cycle is retried.",
    ),
    (
        "DELETE",
        "/v1/disabled",
        "Enables the host for new guests, and waits until this is reported.",
    ),
];

/// Metrics and health, for every local user.
pub(super) fn public_routes(shared: AdminContext) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(shared)
}

/// All routes, for peers that `access` allows; `further` has the routes of guests and devices.
pub(super) fn admin(shared: AdminContext, access: Access, further: Router) -> Router {
    restrict(routes(shared, further), access)
}

/// Restricts an API to the peers that `access` allows.
pub(super) fn restrict(api: Router, access: Access) -> Router {
    api.layer(middleware::from_fn_with_state(Arc::new(access), authorize))
}

/// All routes, for clients that TLS has authenticated and that `allowed` names. Empty: all of them.
pub(super) fn tls_routes(
    shared: AdminContext,
    further: Router,
    allowed: Arc<[SubjectName]>,
) -> Router {
    routes(shared, further).layer(middleware::from_fn_with_state(allowed, admit_client))
}

async fn admit_client(
    State(allowed): State<Arc<[SubjectName]>>,
    Extension(client): Extension<TlsClient>,
    request: HttpRequest,
    next: Next,
) -> Response {
    let is_allowed = |name| allowed.iter().any(|allowed| allowed.matches(name));
    if allowed.is_empty() || client.names.iter().any(is_allowed) {
        return next.run(request).await;
    }
    let message = format!(
        "the certificate of {} has no name that [agent] allowed_clients of this host lists",
        client.holder
    );
    refusal(StatusCode::FORBIDDEN, "forbidden", message)
}

fn routes(shared: AdminContext, further: Router) -> Router {
    let own = Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .route("/v1/state", get(state))
        .route("/v1/plan", get(plan))
        .route("/v1/config", get(config))
        .route("/v1/tick", post(tick))
        .route("/v1/disabled", put(disable).delete(enable))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(shared);
    // The routes of guests have a larger body limit.
    own.merge(further)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
}

async fn authorize(
    State(access): State<Arc<Access>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: HttpRequest,
    next: Next,
) -> Response {
    let allowed = match access.decide(peer) {
        AccessDecision::Allowed => true,
        AccessDecision::Refused => false,
        AccessDecision::IfMember(uid) => {
            let access = Arc::clone(&access);
            // In a blocking thread: the user database may be on the network.
            tokio::task::spawn_blocking(move || access.is_member(uid))
                .await
                .unwrap_or(false)
        }
    };
    if allowed {
        return next.run(request).await;
    }
    tracing::warn!(uid = ?peer.uid, path = request.uri().path(), "access to a socket was refused");
    let message = format!(
        "only root and members of group {} may use this socket (usermod -aG {0} USER)",
        access.name()
    );
    refusal(StatusCode::FORBIDDEN, "forbidden", message)
}

async fn healthz(State(shared): State<AdminContext>) -> Response {
    let body = HealthBody::new(&shared.state(), Instant::now());
    let status = if body.is_healthy() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body)).into_response()
}

async fn metrics(State(shared): State<AdminContext>) -> Response {
    let health = shared.state().health.visible(Instant::now());
    let format = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (format, shared.metrics.page(&health).await).into_response()
}

async fn state(State(shared): State<AdminContext>) -> Json<StateBody> {
    Json(StateBody::new(&shared.state(), Instant::now()))
}

async fn plan(State(shared): State<AdminContext>) -> Json<PlanBody> {
    Json(PlanBody::new(&shared.state()))
}

async fn config(State(shared): State<AdminContext>) -> Json<ConfigBody> {
    let config = serde_json::Value::clone(&shared.state().config);
    Json(ConfigBody {
        api: API.to_owned(),
        config,
    })
}

async fn tick(State(shared): State<AdminContext>) -> Response {
    let (reply, outcome) = oneshot::channel();
    if let Err(stopping) = send_to_loop(&shared, AgentRequest::Tick { reply }).await {
        return stopping;
    }
    match timeout(PATIENCE, outcome).await {
        Ok(Ok(outcome)) => Json(TickBody::new(&outcome)).into_response(),
        Ok(Err(_)) => stopping(),
        Err(_) => refusal(
            StatusCode::ACCEPTED,
            "not_over",
            "the cycle is still running".to_owned(),
        ),
    }
}

async fn disable(
    State(shared): State<AdminContext>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejected) => return refusal(rejected.status(), "unreadable", rejected.body_text()),
    };
    let bad = |message: String| refusal(StatusCode::BAD_REQUEST, "bad_request", message);
    let wanted: DisableBody = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(error) => {
            return bad(format!(
                "invalid body: {error}; expected {{\"reason\": \"...\"}}"
            ));
        }
    };
    match DisabledByOperator::new(&wanted.reason, SystemTime::now(), peer.uid) {
        Ok(disabled) => set_disabled(&shared, Some(disabled)).await,
        Err(error) => bad(error.to_string()),
    }
}

async fn enable(State(shared): State<AdminContext>) -> Response {
    set_disabled(&shared, None).await
}

async fn set_disabled(shared: &AdminContext, disabled: Option<DisabledByOperator>) -> Response {
    let (reply, outcome) = oneshot::channel();
    if let Err(stopping) = send_to_loop(
        shared,
        AgentRequest::SetDisabled {
            disabled: disabled.clone(),
            reply,
        },
    )
    .await
    {
        return stopping;
    }
    let answer = |tick: Option<TickOutcome>| {
        let tick = tick.as_ref().map(TickBody::new);
        Json(DisabledBody {
            api: API.to_owned(),
            disabled,
            tick,
        })
        .into_response()
    };
    match timeout(PATIENCE, outcome).await {
        Ok(Ok(Ok(outcome))) => answer(Some(outcome)),
        Ok(Ok(Err(error))) => store_failed(&error),
        // The setting is stored; only the cycle that reports it is still running.
        Err(_) => answer(None),
        Ok(Err(_)) => stopping(),
    }
}

fn store_failed(error: &DisabledError) -> Response {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        STATE_FILES,
        error_chain(error),
    )
}

async fn send_to_loop(shared: &AdminContext, request: AgentRequest) -> Result<(), Response> {
    shared.requests.send(request).await.map_err(|_| stopping())
}

fn stopping() -> Response {
    refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        "the agent is stopping".to_owned(),
    )
}

async fn not_found() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "not_found",
        "unknown route".to_owned(),
    )
}

async fn method_not_allowed() -> Response {
    refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "the route does not have this method".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use tokio::sync::watch;
    use tower::ServiceExt;

    use super::*;
    use crate::health::HealthMessage;

    struct NoMetrics;

    impl RenderMetrics for NoMetrics {
        fn page<'a>(
            &'a self,
            _: &'a [HealthMessage],
        ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>> {
            Box::pin(std::future::ready(String::new()))
        }
    }

    fn unknown() -> AdminContext {
        let (_, states) = watch::channel(Arc::new(AgentState::unknown("scripted")));
        let (requests, _) = mpsc::channel(1);
        AdminContext {
            states,
            metrics: Arc::new(NoMetrics),
            requests,
        }
    }

    async fn send(peer: Peer, method: &str, path: &str) -> Response {
        let router = admin(
            unknown(),
            Access::of_group("no-such-group-here"),
            Router::new(),
        )
        .layer(MockConnectInfo(peer));
        let request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .body(Body::empty())
            .unwrap();
        router.oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn a_foreign_user_is_refused_on_every_route_even_on_those_that_are_none() {
        let routes = ROUTES
            .iter()
            .map(|(method, path, _)| (*method, *path))
            .chain([("GET", "/v1/nothing")]);
        for (method, path) in routes {
            let foreign_user = send(Peer::of(65_533, 65_533), method, path).await;
            assert_eq!(
                foreign_user.status(),
                StatusCode::FORBIDDEN,
                "{method} {path}"
            );
            let root = send(Peer::of(0, 0), method, path).await;
            assert_ne!(root.status(), StatusCode::FORBIDDEN, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn a_client_is_served_over_tls_only_by_a_name_that_is_allowed() {
        let names = |texts: &[&str]| -> Vec<SubjectName> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        for (certificate, allowed, served) in [
            (&["DNS:conductor-1", "IP:192.0.2.7"][..], &[][..], true),
            (
                &["DNS:conductor-1", "IP:192.0.2.7"],
                &["DNS:conductor-1"],
                true,
            ),
            (
                &["DNS:conductor-1", "IP:192.0.2.7"],
                &["DNS:other", "IP:192.0.2.7"],
                true,
            ),
            (&["DNS:node-2"], &["DNS:conductor-1"], false),
            (
                &["DNS:conductor-1.evil.example"],
                &["DNS:conductor-1"],
                false,
            ),
            (&[], &["DNS:conductor-1"], false),
        ] {
            let client = TlsClient {
                holder: berth_serve::CertificateHolder::default(),
                names: names(certificate),
                address: "192.0.2.7:1".parse().unwrap(),
            };
            let router = tls_routes(unknown(), Router::new(), names(allowed).into());
            for path in ["/v1/state", "/metrics", "/v1/nothing"] {
                let request = HttpRequest::get(path).body(Body::empty()).unwrap();
                let router = router.clone().layer(Extension(client.clone()));
                let status = router.oneshot(request).await.unwrap().status();
                assert_eq!(
                    status != StatusCode::FORBIDDEN,
                    served,
                    "{certificate:?} {path}"
                );
            }
        }
    }

    #[tokio::test]
    async fn every_documented_route_is_there_and_an_agent_that_stops_says_so() {
        for (method, path, _) in ROUTES {
            let status = send(Peer::of(0, 0), method, path).await.status();
            let expected = match (*method, *path) {
                ("GET", "/healthz") | ("POST" | "DELETE", _) => StatusCode::SERVICE_UNAVAILABLE,
                ("PUT", _) => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            assert_eq!(status, expected, "{method} {path}");
        }
    }
}
