//! The routes of the admin API. Answers come from the state that the loop published; only a tick and disabling reach the loop.

use std::fmt::Write as _;
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
use berth_serve::TlsClient;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::LIMITS;
use super::access::{Access, Peer, Verdict};
use super::body::{
    API, ConfigBody, DisableBody, DisabledBody, ErrorBody, ErrorDetail, HealthBody, PlanBody,
    STATE_FILES, StateBody, TickBody,
};
use crate::device;
use crate::disabled::{Disabled, DisabledError};
use crate::guest::{self, reconcile};
use crate::health::WARNABLES;
use crate::metrics::MetricsPage;
use crate::service::{AgentState, Request, States, TickOutcome, sentence};

/// The largest body of a request, in bytes.
const BODY_LIMIT: usize = 16 << 10;

/// How long a request waits for the pass it asked for.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// What the handlers need.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) states: States,
    pub(super) metrics: MetricsPage,
    pub(super) requests: mpsc::Sender<Request>,
}

impl Shared {
    fn state(&self) -> Arc<AgentState> {
        Arc::clone(&self.states.borrow())
    }
}

/// The routes, for the documentation.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/healthz",
        "200 when the agent does its duty, else 503; the findings that are shown, the worst first.",
    ),
    (
        "GET",
        "/metrics",
        "Prometheus' text format; see [metrics](metrics.md).",
    ),
    (
        "GET",
        "/v1/state",
        "Phase, driver, whether the host is disabled, and per node: root provider, plan state, last pass, held units, the provider tree as last known.",
    ),
    (
        "GET",
        "/v1/plan",
        "Per node the last pass and the last one that changed something, as text and as lists of providers.",
    ),
    (
        "GET",
        "/v1/config",
        "The configuration in force by option name; secrets are masked.",
    ),
    (
        "POST",
        "/v1/tick",
        "Asks for a pass over all nodes, those that wait after a failure included, and waits for what comes of it. 202: it is not over after a minute and goes on.",
    ),
    (
        "PUT",
        "/v1/disabled",
        "Body `{\"reason\": \"...\"}`: the host takes no new guests (COMPUTE_STATUS_DISABLED), also after a restart. Waits for the pass that reports it; a failed pass is tried again.",
    ),
    (
        "DELETE",
        "/v1/disabled",
        "The host takes guests again. Waits likewise.",
    ),
];

/// Metrics and health, for anybody on this host.
pub(super) fn public(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(shared)
}

/// Everything, for those whom `access` lets in; `further` has the routes of guests and devices.
pub(super) fn admin(shared: Shared, access: Access, further: Router) -> Router {
    fenced(routes(shared, further), access)
}

/// An API for those whom `access` lets in.
pub(super) fn fenced(api: Router, access: Access) -> Router {
    api.layer(middleware::from_fn_with_state(Arc::new(access), admit))
}

/// Everything, for whom the TLS door let in; each request is logged with whose certificate it came by.
pub(super) fn certified(shared: Shared, further: Router) -> Router {
    routes(shared, further).layer(middleware::from_fn(logged))
}

fn routes(shared: Shared, further: Router) -> Router {
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
    // Guests' bodies have a limit of their own.
    own.merge(further)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
}

async fn logged(
    Extension(client): Extension<TlsClient>,
    request: HttpRequest,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = next.run(request).await;
    tracing::info!(
        client = %client.holder,
        address = %client.address,
        %method,
        path,
        status = answer.status().as_u16(),
        "the agent's API was asked over TLS"
    );
    answer
}

async fn admit(
    State(access): State<Arc<Access>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: HttpRequest,
    next: Next,
) -> Response {
    let allowed = match access.verdict(peer) {
        Verdict::Allowed => true,
        Verdict::Refused => false,
        Verdict::IfMember(uid) => {
            let access = Arc::clone(&access);
            // The user database may be on the network.
            tokio::task::spawn_blocking(move || access.is_member(uid))
                .await
                .unwrap_or(false)
        }
    };
    if allowed {
        return next.run(request).await;
    }
    tracing::warn!(uid = ?peer.uid, path = request.uri().path(), "the admin API was refused to a user");
    let message = format!(
        "only root and members of group {} may ask (usermod -aG {0} USER)",
        access.name()
    );
    refusal(StatusCode::FORBIDDEN, "forbidden", message)
}

async fn healthz(State(shared): State<Shared>) -> Response {
    let body = HealthBody::new(&shared.state(), Instant::now());
    let status = if body.is_well() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(body)).into_response()
}

async fn metrics(State(shared): State<Shared>) -> Response {
    shared
        .metrics
        .own
        .health(&shared.state().health.visible(Instant::now()));
    let format = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (format, shared.metrics.render().await).into_response()
}

async fn state(State(shared): State<Shared>) -> Json<StateBody> {
    Json(StateBody::new(&shared.state(), Instant::now()))
}

async fn plan(State(shared): State<Shared>) -> Json<PlanBody> {
    Json(PlanBody::new(&shared.state()))
}

async fn config(State(shared): State<Shared>) -> Json<ConfigBody> {
    let config = serde_json::Value::clone(&shared.state().config);
    Json(ConfigBody {
        api: API.to_owned(),
        config,
    })
}

async fn tick(State(shared): State<Shared>) -> Response {
    let (reply, outcome) = oneshot::channel();
    if let Err(stopping) = ask(&shared, Request::Tick { reply }).await {
        return stopping;
    }
    match timeout(PATIENCE, outcome).await {
        Ok(Ok(outcome)) => Json(TickBody::new(&outcome)).into_response(),
        Ok(Err(_)) => stopping(),
        Err(_) => refusal(
            StatusCode::ACCEPTED,
            "not_over",
            "the pass is not over yet and goes on".to_owned(),
        ),
    }
}

async fn disable(
    State(shared): State<Shared>,
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
                "the body is to be {{\"reason\": \"...\"}}: {error}"
            ));
        }
    };
    match Disabled::new(&wanted.reason, SystemTime::now(), peer.uid) {
        Ok(disabled) => set_disabled(&shared, Some(disabled)).await,
        Err(error) => bad(error.to_string()),
    }
}

async fn enable(State(shared): State<Shared>) -> Response {
    set_disabled(&shared, None).await
}

async fn set_disabled(shared: &Shared, disabled: Option<Disabled>) -> Response {
    let (reply, outcome) = oneshot::channel();
    if let Err(stopping) = ask(
        shared,
        Request::SetDisabled {
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
        Ok(Ok(Err(error))) => not_kept(&error),
        // It is kept; only the pass that reports it is missing.
        Err(_) => answer(None),
        Ok(Err(_)) => stopping(),
    }
}

fn not_kept(error: &DisabledError) -> Response {
    refusal(
        StatusCode::INTERNAL_SERVER_ERROR,
        STATE_FILES,
        sentence(error),
    )
}

async fn ask(shared: &Shared, request: Request) -> Result<(), Response> {
    shared.requests.send(request).await.map_err(|_| stopping())
}

fn stopping() -> Response {
    refusal(
        StatusCode::SERVICE_UNAVAILABLE,
        "stopping",
        "the agent stops".to_owned(),
    )
}

async fn not_found() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is no such route".to_owned(),
    )
}

async fn method_not_allowed() -> Response {
    refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "the route has no such method".to_owned(),
    )
}

/// A refusal as this API words it.
pub(crate) fn refusal(status: StatusCode, code: &str, message: String) -> Response {
    let error = ErrorDetail {
        code: code.to_owned(),
        message,
    };
    (
        status,
        Json(ErrorBody {
            api: API.to_owned(),
            error,
        }),
    )
        .into_response()
}

/// `docs/guide/reference/admin-api.md`.
#[must_use]
pub fn admin_page() -> String {
    let mut page = format!(
        "# The agent's admin API\n\n\
         Written from the code; do not edit.\n\n\
         HTTP on the unix socket `/run/berth/agent.sock` (`[agent] admin_socket`, mode 0660), for root, the agent's own user\n\
         and members of the group `berth` (`[agent] admin_group`); the kernel says who asks. `/healthz` and `/metrics` are\n\
         also on the loopback address `[agent] metrics_listen`, for anybody on the host, where that is set. All of it is on\n\
         `[agent] listen` over TLS, where that is set, for whoever shows a certificate that `client_ca` signed:\n\
         [the agent's API over TLS](../howto/agent-api-over-tls.md). For example:\n\n\
         ```\ncurl --unix-socket /run/berth/agent.sock http://agent/v1/state\n```\n\n\
         The same as an OpenAPI document, with every body: `docs/api/agent.json`, which the Debian package has as\n\
         `/usr/share/doc/berth/api/agent.json`.\n\n\
         JSON bodies carry `\"api\": \"{API}\"`; times are UTC in RFC 3339. A refusal carries\n\
         `{{\"error\": {{\"code\": ..., \"message\": ...}}}}`. A request's body may have {BODY_LIMIT} bytes.\n\n\
         Each of them takes {connections} connections at once; one more ends the one that has waited longest for a\n\
         request, or waits where there is none. A connection is closed when no whole head of a request comes within {head} s (an idle one, too; a TLS handshake has\n\
         as long), and a body has {body} s.\n\n\
         | method | path | what it does |\n| --- | --- | --- |\n",
        connections = LIMITS.connections,
        head = LIMITS.head.as_secs(),
        body = LIMITS.body.as_secs(),
    );
    let further = [
        guest::api::ROUTES,
        reconcile::api::ROUTES,
        device::api::ROUTES,
    ];
    for (method, path, help) in ROUTES.iter().chain(further.into_iter().flatten()) {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| {method} | `{path}` | {help} |");
    }
    page.push_str(
        "\n## Health findings\n\n\
         A finding is shown only after it has lasted for its time, and not while one of its causes is there too: Placement\n\
         being away shows one line, not one for each node. `/healthz` answers 503 while an `error` is shown or the start is\n\
         not over.\n\n\
         | code | severity | what it says | shown after | hidden by |\n| --- | --- | --- | --- | --- |\n",
    );
    for warnable in WARNABLES {
        let causes: Vec<String> = warnable
            .depends_on
            .iter()
            .map(|cause| format!("`{}`", cause.code))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} s | {} |",
            warnable.code,
            warnable.severity.as_str(),
            warnable.title,
            warnable.time_to_visible.as_secs(),
            causes.join(", ")
        );
    }
    page.push_str(
        "\n## What a comparison finds\n\n\
         `berth reconcile`, the routes `/v1/reconcile`, the log and the metric `berth_reconcile_findings` have these words. The sentence that\n\
         comes with one says what is done about it, or what an operator can do.\n\n\
         | code | between | what it says |\n| --- | --- | --- |\n",
    );
    for kind in reconcile::FindingKind::ALL {
        let (code, between, says) = (kind.code(), kind.between(), kind.says());
        let _ = writeln!(page, "| `{code}` | {between} | {says} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use tokio::sync::watch;
    use tower::ServiceExt;

    use super::*;
    use crate::metrics::Metrics;

    async fn asked(peer: Peer, method: &str, path: &str) -> Response {
        let (_states, states) = watch::channel(Arc::new(AgentState::unknown("scripted")));
        let (requests, _) = mpsc::channel(1);
        let shared = Shared {
            states,
            metrics: MetricsPage {
                own: Metrics::default(),
                beside: None,
            },
            requests,
        };
        let router = admin(
            shared,
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
    async fn a_stranger_is_refused_on_every_route_even_on_those_that_are_none() {
        let routes = ROUTES
            .iter()
            .map(|(method, path, _)| (*method, *path))
            .chain([("GET", "/v1/nothing")]);
        for (method, path) in routes {
            let stranger = asked(Peer::of(65_533, 65_533), method, path).await;
            assert_eq!(stranger.status(), StatusCode::FORBIDDEN, "{method} {path}");
            let root = asked(Peer::of(0, 0), method, path).await;
            assert_ne!(root.status(), StatusCode::FORBIDDEN, "{method} {path}");
        }
    }

    #[tokio::test]
    async fn every_documented_route_is_there_and_an_agent_that_stops_says_so() {
        for (method, path, _) in ROUTES {
            let status = asked(Peer::of(0, 0), method, path).await.status();
            let expected = match (*method, *path) {
                ("GET", "/healthz") | ("POST" | "DELETE", _) => StatusCode::SERVICE_UNAVAILABLE,
                ("PUT", _) => StatusCode::BAD_REQUEST,
                _ => StatusCode::OK,
            };
            assert_eq!(status, expected, "{method} {path}");
        }
    }
}
