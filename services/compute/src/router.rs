//! The routes, the same for every way to call them. They may be put below a prefix (`berth_http::under`): links have it.

use std::sync::Arc;

use axum::Router;
use berth_http::{Call, Door, Fault, Manners, Methods, NoAuth2, Policy, ValidateToken, door};

use crate::compute::Compute;
use crate::handlers::{
    extensions, flavor_access, flavor_extra_specs, flavor_manage, flavors, key_pairs, versions,
};
use crate::microversions::RANGE;
use crate::policies::{self, default_policy};

/// How the routes behave.
#[derive(Clone)]
pub struct Options {
    /// Who believes tokens. The default takes the token's own word: for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    /// Who may do what.
    pub policy: Policy,
    /// The largest request body, in bytes.
    pub body_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            body_limit: 1 << 20,
        }
    }
}

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) compute: Compute,
    policy: Arc<Policy>,
}

impl Api {
    /// Refuses a caller who may not.
    pub(crate) fn allow(&self, call: &Call, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }

    /// Whether the caller is an operator of the cloud.
    pub(crate) fn is_admin(&self, call: &Call) -> bool {
        self.allow(call, policies::ADMIN).is_ok()
    }
}

/// The compute API over what it keeps.
pub fn router(compute: Compute, options: Options) -> Router {
    let entrance = Door {
        manners: Manners::Compute,
        versions: RANGE,
        tokens: Arc::clone(&options.tokens),
        body_limit: options.body_limit,
    };
    let api = Api {
        compute,
        policy: Arc::new(options.policy),
    };
    let one_version = || Methods::new("GET").get(versions::show).done();
    let routes = Router::new()
        .route("/", Methods::new("GET").get(versions::list).done())
        .route("/v2.1", one_version())
        .route("/v2.1/", one_version())
        .route(
            "/v2.1/extensions",
            Methods::new("GET").get(extensions::list).done(),
        );
    let routes = key_pair_routes(flavor_routes(routes))
        .fallback(no_such_route)
        .with_state(api);
    door(routes, entrance)
}

fn flavor_routes(routes: Router<Api>) -> Router<Api> {
    routes
        .route(
            "/v2.1/flavors",
            Methods::new("GET, POST")
                .get(flavors::list)
                .post(flavor_manage::create)
                .done(),
        )
        .route(
            "/v2.1/flavors/detail",
            Methods::new("GET").get(flavors::detail).done(),
        )
        .route(
            "/v2.1/flavors/{flavor}",
            Methods::new("GET, PUT, DELETE")
                .get(flavors::show)
                .put(flavor_manage::update)
                .delete(flavor_manage::delete)
                .done(),
        )
        .route(
            "/v2.1/flavors/{flavor}/action",
            Methods::new("POST").post(flavor_access::action).done(),
        )
        .route(
            "/v2.1/flavors/{flavor}/os-flavor-access",
            Methods::new("GET").get(flavor_access::list).done(),
        )
        .route(
            "/v2.1/flavors/{flavor}/os-extra_specs",
            Methods::new("GET, POST")
                .get(flavor_extra_specs::list)
                .post(flavor_extra_specs::create)
                .done(),
        )
        .route(
            "/v2.1/flavors/{flavor}/os-extra_specs/{key}",
            Methods::new("GET, PUT, DELETE")
                .get(flavor_extra_specs::show)
                .put(flavor_extra_specs::update)
                .delete(flavor_extra_specs::delete)
                .done(),
        )
}

fn key_pair_routes(routes: Router<Api>) -> Router<Api> {
    routes
        .route(
            "/v2.1/os-keypairs",
            Methods::new("GET, POST")
                .get(key_pairs::list)
                .post(key_pairs::create)
                .done(),
        )
        .route(
            "/v2.1/os-keypairs/{name}",
            Methods::new("GET, DELETE")
                .get(key_pairs::show)
                .delete(key_pairs::delete)
                .done(),
        )
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
