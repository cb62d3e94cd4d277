//! The routes of the Identity API.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use berth_http::{
    ApiDialect, ApiRequest, BODY_LIMIT, CorsOptions, Fault, HeadRequests, Microversion,
    MicroversionRange, Operation, Policy, Prefix, ServiceLayer, TokenRequest, ValidateToken, cors,
    under, with_service_layer,
};

use crate::handlers::{operations, users};
use crate::identity::Identity;
use crate::unified_limits::{ServiceLimits, UnifiedLimits};

/// Keystone has no microversions, so there is one version.
const RANGE: MicroversionRange = MicroversionRange {
    service: "identity",
    min: Microversion::new(3, 14),
    max: Microversion::new(3, 14),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// How the routes behave.
#[derive(Debug, Clone)]
pub struct IdentityApiOptions {
    /// The public URL without `/v3` (Keystone's option of this name). Without it, links use the host of the request.
    pub public_endpoint: Option<String>,
    pub path_prefix: Prefix,
    pub cors: CorsOptions,
    /// The largest request body, in bytes: Keystone's `max_request_body_size`.
    pub body_limit: usize,
    /// Limits of a service in the same process. Without them, `/v3/limits` does not exist.
    pub unified_limits: Option<Arc<dyn UnifiedLimits>>,
}

impl Default for IdentityApiOptions {
    fn default() -> Self {
        Self {
            public_endpoint: None,
            path_prefix: Prefix::default(),
            cors: CorsOptions::default(),
            body_limit: BODY_LIMIT,
            unified_limits: None,
        }
    }
}

pub(crate) type IdentityOperation = Operation<IdentityApi>;

#[derive(Clone)]
pub(crate) struct IdentityApi {
    pub(crate) identity: Identity,
    pub(crate) limits: Option<Arc<ServiceLimits>>,
    base: Option<Arc<str>>,
}

impl IdentityApi {
    /// A path below `/v3` as a URL; `path` begins with `/` or is empty.
    pub(crate) fn url(&self, call: &ApiRequest, path: &str) -> String {
        match &self.base {
            Some(base) => format!("{base}/v3{path}"),
            None => call.absolute(&format!("/v3{path}")),
        }
    }
}

/// Validates the tokens of requests to this service itself.
struct Believer {
    identity: Identity,
    url: Option<String>,
}

impl ValidateToken for Believer {
    fn validate<'a>(&'a self, request: TokenRequest<'a>) -> berth_http::auth::Validation<'a> {
        self.identity.validate(request)
    }

    fn keystone(&self) -> Option<&str> {
        self.url.as_deref()
    }
}

pub fn router(identity: Identity, options: IdentityApiOptions) -> Router {
    let base = options.public_endpoint.as_deref();
    let base = base.map(|url| url.trim_end_matches('/').trim_end_matches("/v3"));
    let entrance = ServiceLayer {
        dialect: ApiDialect::Keystone,
        versions: RANGE,
        tokens: Arc::new(Believer {
            identity: identity.clone(),
            url: base.map(|base| format!("{base}/v3")),
        }),
        // The handlers check Keystone's rules themselves.
        policy: Arc::new(Policy::new([])),
        body_limit: options.body_limit,
    };
    let limits = options.unified_limits;
    let limits = limits.and_then(|store| ServiceLimits::new(store, identity.catalog()));
    let api = IdentityApi {
        identity,
        limits: limits.map(Arc::new),
        base: base.map(Arc::from),
    };
    let routes = refusing_routes(operations().router(HeadRequests::Served))
        .fallback(no_such_route)
        .with_state(api);
    let browsers = options.cors;
    under(
        cors(with_service_layer(routes, entrance), browsers),
        options.path_prefix,
    )
}

/// Paths that are there only to be written to.
fn refusing_routes(router: Router<IdentityApi>) -> Router<IdentityApi> {
    let refused = || any(users::refuse);
    router
        .route("/v3/users/{id}/password", refused())
        .route("/v3/users/{id}/application_credentials", refused())
}

async fn no_such_route(State(_): State<IdentityApi>) -> Fault {
    Fault::no_such_route()
}
