//! The routes of the Identity API.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use berth_http::{
    ApiDialect, ApiRequest, CorsOptions, Fault, Microversion, MicroversionRange, Prefix,
    RouteMethods, ServiceLayer, TokenRequest, ValidateToken, cors, under, with_service_layer,
};

use crate::handlers::{
    auth_scopes, auth_tokens, catalog, domains, grants, projects, role_assignments, roles, users,
    versions,
};
use crate::identity::Identity;

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
}

impl Default for IdentityApiOptions {
    fn default() -> Self {
        Self {
            public_endpoint: None,
            path_prefix: Prefix::default(),
            cors: CorsOptions::default(),
            body_limit: 114_688,
        }
    }
}

#[derive(Clone)]
pub(crate) struct IdentityApi {
    pub(crate) identity: Identity,
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
        body_limit: options.body_limit,
    };
    let api = IdentityApi {
        identity,
        base: base.map(Arc::from),
    };
    let router = routes()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods.build())
        });
    let routes = refusing_routes(router)
        .fallback(no_such_route)
        .with_state(api);
    let browsers = options.cors;
    under(
        cors(with_service_layer(routes, entrance), browsers),
        options.path_prefix,
    )
}

/// A path and its methods.
type IdentityRoute = (&'static str, RouteMethods<IdentityApi>);

/// All routes that read, and the route that issues tokens.
pub(crate) fn routes() -> Vec<IdentityRoute> {
    let mut routes = token_routes();
    routes.extend(reading_routes());
    routes.extend(grant_routes());
    routes
}

fn read() -> RouteMethods<IdentityApi> {
    RouteMethods::with_head("GET, HEAD")
}

fn token_routes() -> Vec<IdentityRoute> {
    let tokens = RouteMethods::with_head("GET, HEAD, POST, DELETE")
        .get(auth_tokens::show)
        .post(auth_tokens::create)
        .delete(auth_tokens::revoke);
    vec![
        ("/", read().get(versions::list)),
        ("/v3", read().get(versions::show)),
        ("/v3/", read().get(versions::show)),
        ("/v3/auth/tokens", tokens),
        ("/v3/auth/catalog", read().get(auth_scopes::catalog)),
        ("/v3/auth/projects", read().get(auth_scopes::projects)),
        ("/v3/auth/domains", read().get(auth_scopes::domains)),
        ("/v3/auth/system", read().get(auth_scopes::system)),
    ]
}

/// Routes of the users file: read-only. Changes are refused; operators see the path of the file.
fn kept_in_file() -> RouteMethods<IdentityApi> {
    RouteMethods::with_head("GET, HEAD")
        .post(users::refuse)
        .put(users::refuse)
        .patch(users::refuse)
        .delete(users::refuse)
}

/// Routes of the service catalog: read-only.
fn kept_in_configuration() -> RouteMethods<IdentityApi> {
    RouteMethods::with_head("GET, HEAD")
        .post(catalog::refuse)
        .put(catalog::refuse)
        .patch(catalog::refuse)
        .delete(catalog::refuse)
}

fn reading_routes() -> Vec<IdentityRoute> {
    vec![
        ("/v3/users", kept_in_file().get(users::list)),
        ("/v3/users/{id}", kept_in_file().get(users::show)),
        ("/v3/users/{id}/projects", read().get(users::projects)),
        ("/v3/users/{id}/groups", read().get(users::groups)),
        ("/v3/projects", kept_in_file().get(projects::list)),
        ("/v3/projects/{id}", kept_in_file().get(projects::show)),
        ("/v3/domains", kept_in_file().get(domains::list)),
        ("/v3/domains/{id}", kept_in_file().get(domains::show)),
        ("/v3/roles", kept_in_file().get(roles::list)),
        ("/v3/roles/{id}", kept_in_file().get(roles::show)),
        ("/v3/groups", kept_in_file().get(users::all_groups)),
        ("/v3/role_assignments", read().get(role_assignments::list)),
        (
            "/v3/services",
            kept_in_configuration().get(catalog::services),
        ),
        (
            "/v3/services/{id}",
            kept_in_configuration().get(catalog::service),
        ),
        (
            "/v3/endpoints",
            kept_in_configuration().get(catalog::endpoints),
        ),
        (
            "/v3/endpoints/{id}",
            kept_in_configuration().get(catalog::endpoint),
        ),
        ("/v3/regions", kept_in_configuration().get(catalog::regions)),
        (
            "/v3/regions/{id}",
            kept_in_configuration().get(catalog::region),
        ),
    ]
}

/// Routes of role assignments to users.
fn grant_routes() -> Vec<IdentityRoute> {
    let one = || {
        RouteMethods::with_head("GET, HEAD")
            .put(users::refuse)
            .delete(users::refuse)
    };
    vec![
        (
            "/v3/projects/{id}/users/{user}/roles",
            read().get(grants::of_project),
        ),
        (
            "/v3/projects/{id}/users/{user}/roles/{role}",
            one().get(grants::in_project),
        ),
        (
            "/v3/domains/{id}/users/{user}/roles",
            read().get(grants::of_domain),
        ),
        (
            "/v3/domains/{id}/users/{user}/roles/{role}",
            one().get(grants::in_domain),
        ),
        (
            "/v3/system/users/{user}/roles",
            read().get(grants::of_system),
        ),
        (
            "/v3/system/users/{user}/roles/{role}",
            one().get(grants::in_system),
        ),
    ]
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
