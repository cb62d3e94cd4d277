//! The routes, the same for every way to call them.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::any;
use berth_http::{
    Call, Cors, Door, Fault, Manners, Methods, Microversion, MicroversionRange, Prefix,
    TokenRequest, ValidateToken, cors, door, under,
};

use crate::handlers::{
    auth_scopes, auth_tokens, catalog, domains, grants, projects, role_assignments, roles, users,
    versions,
};
use crate::identity::Identity;

/// The one version there is: Keystone has no microversions.
const RANGE: MicroversionRange = MicroversionRange {
    service: "identity",
    min: Microversion::new(3, 14),
    max: Microversion::new(3, 14),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// How the routes behave.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where callers find the service, without `/v3`: Keystone's option of this name. Without it links name the host that the
    /// request came to.
    pub public_endpoint: Option<String>,
    /// What stands before every path.
    pub path_prefix: Prefix,
    /// Which web sites' scripts may ask.
    pub cors: Cors,
    /// The largest request body, in bytes: Keystone's `max_request_body_size`.
    pub body_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            public_endpoint: None,
            path_prefix: Prefix::default(),
            cors: Cors::default(),
            body_limit: 114_688,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) identity: Identity,
    base: Option<Arc<str>>,
}

impl Api {
    /// A path below `/v3` as a URL; `path` begins with `/` or is empty.
    pub(crate) fn url(&self, call: &Call, path: &str) -> String {
        match &self.base {
            Some(base) => format!("{base}/v3{path}"),
            None => call.absolute(&format!("/v3{path}")),
        }
    }
}

/// The service itself believes tokens, and says where they are from.
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

pub fn router(identity: Identity, options: Options) -> Router {
    let base = options.public_endpoint.as_deref();
    let base = base.map(|url| url.trim_end_matches('/').trim_end_matches("/v3"));
    let entrance = Door {
        manners: Manners::Keystone,
        versions: RANGE,
        tokens: Arc::new(Believer {
            identity: identity.clone(),
            url: base.map(|base| format!("{base}/v3")),
        }),
        body_limit: options.body_limit,
    };
    let api = Api {
        identity,
        base: base.map(Arc::from),
    };
    let router = routes()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods.done())
        });
    let routes = refusing_routes(router)
        .fallback(no_such_route)
        .with_state(api);
    let browsers = options.cors;
    under(cors(door(routes, entrance), browsers), options.path_prefix)
}

/// A path and its methods.
type Route = (&'static str, Methods<Api>);

/// Every path that is read, or where tokens are made.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = token_routes();
    routes.extend(reading_routes());
    routes.extend(grant_routes());
    routes
}

fn read() -> Methods<Api> {
    Methods::with_head("GET, HEAD")
}

fn token_routes() -> Vec<Route> {
    let tokens = Methods::with_head("GET, HEAD, POST, DELETE")
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

/// What stands in the file of users is read here, and every change is refused; to operators with a sentence that names it.
fn kept_in_file() -> Methods<Api> {
    Methods::with_head("GET, HEAD")
        .post(users::refuse)
        .put(users::refuse)
        .patch(users::refuse)
        .delete(users::refuse)
}

/// The same of what the configuration says.
fn kept_in_configuration() -> Methods<Api> {
    Methods::with_head("GET, HEAD")
        .post(catalog::refuse)
        .put(catalog::refuse)
        .patch(catalog::refuse)
        .delete(catalog::refuse)
}

fn reading_routes() -> Vec<Route> {
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

/// Who was given which role where.
fn grant_routes() -> Vec<Route> {
    let one = || {
        Methods::with_head("GET, HEAD")
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
fn refusing_routes(router: Router<Api>) -> Router<Api> {
    let refused = || any(users::refuse);
    router
        .route("/v3/users/{id}/password", refused())
        .route("/v3/users/{id}/application_credentials", refused())
}

async fn no_such_route(State(_): State<Api>) -> Fault {
    Fault::no_such_route()
}
