//! The routes of the Placement API.

use std::sync::Arc;

use axum::Router;
use berth_http::{
    ApiDialect, ApiRequest, CorsOptions, Fault, NoAuth2, Policy, Prefix, RouteMethods,
    ServiceLayer, ValidateToken, cors, under, with_service_layer,
};
use berth_store::SqlStore;

use crate::claim_queue::ClaimQueue;
use crate::handlers::{
    aggregates, allocation_candidates, allocations, inventories, reshaper, resource_classes,
    resource_providers, root, traits, usages,
};
use crate::microversions;
use crate::policies::{DeprecatedDefaults, default_policy};
use crate::searches::{CandidatesFrom, Searches};
use crate::snapshots::Snapshots;
use crate::store::allocations::ConsumerReader;

/// How the service behaves.
#[derive(Clone)]
pub struct PlacementApiOptions {
    /// Validates tokens. The default is `noauth2`, for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    pub policy: Policy,
    /// The largest request body, in bytes. A reshape of 1,000 consumers takes about 300 kB.
    pub body_limit: usize,
    /// The project of consumers created before 1.8 without one.
    pub incomplete_consumer_project_id: String,
    /// The user of consumers created before 1.8 without one.
    pub incomplete_consumer_user_id: String,
    /// Whether candidates are returned in random order, and a random selection of them if there are
    /// more than the limit.
    pub randomize_allocation_candidates: bool,
    /// The maximum number of candidates in a response, whatever its limit parameter. A request that matches every
    /// combination of a few hundred devices has more candidates than fit in memory.
    pub max_allocation_candidates: usize,
    /// Where candidates are searched.
    pub candidates_from: CandidatesFrom,
    /// CORS options. By default no origin is allowed.
    pub cors: CorsOptions,
    /// The path prefix. Empty by default.
    pub path_prefix: Prefix,
}

const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";

impl Default for PlacementApiOptions {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(DeprecatedDefaults::Ignored),
            body_limit: 64 << 20,
            incomplete_consumer_project_id: NIL_UUID.to_owned(),
            incomplete_consumer_user_id: NIL_UUID.to_owned(),
            randomize_allocation_candidates: false,
            max_allocation_candidates: 100_000,
            candidates_from: CandidatesFrom::default(),
            cors: CorsOptions::default(),
            path_prefix: Prefix::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Placement {
    pub(crate) store: SqlStore,
    /// All writes go through it.
    pub(crate) snapshots: Snapshots,
    /// Group commit for claims.
    pub(crate) claims: Arc<ClaimQueue>,
    pub(crate) searches: Arc<Searches>,
    pub(crate) consumers: Arc<ConsumerReader>,
    pub(crate) options: Arc<PlacementApiOptions>,
}

impl Placement {
    /// Checks a policy rule.
    pub(crate) fn allow(&self, call: &ApiRequest, rule: &'static str) -> Result<(), Fault> {
        self.options.policy.authorize(&call.caller, rule, None)
    }
}

/// Builds the Placement API over a prepared database ([`crate::prepare`]).
///
/// Routers over clones of one store see each other's writes.
pub fn router(store: SqlStore, options: PlacementApiOptions) -> Router {
    let entrance = ServiceLayer {
        dialect: ApiDialect::Placement,
        versions: microversions::RANGE,
        tokens: Arc::clone(&options.tokens),
        body_limit: options.body_limit,
    };
    let (browsers, prefix) = (options.cors.clone(), options.path_prefix.clone());
    let snapshots = Snapshots::new(store.clone());
    let placement = Placement {
        consumers: Arc::new(ConsumerReader::new(store.clone())),
        searches: Arc::new(Searches::new(
            &snapshots,
            store.clone(),
            options.candidates_from,
            options.randomize_allocation_candidates,
        )),
        claims: Arc::new(ClaimQueue::new(&snapshots)),
        snapshots,
        store,
        options: Arc::new(options),
    };
    let routes = routes()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods.build())
        })
        .fallback(no_such_route)
        .with_state(placement);
    under(cors(with_service_layer(routes, entrance), browsers), prefix)
}

/// A path and its methods.
type PlacementRoute = (&'static str, RouteMethods<Placement>);

/// All routes; the OpenAPI document lists them, too.
pub(crate) fn routes() -> Vec<PlacementRoute> {
    let mut routes = vec![("/", RouteMethods::new("GET").get(root::show))];
    routes.extend(provider_routes());
    routes.extend(name_routes());
    routes.extend(allocation_routes());
    routes
}

fn provider_routes() -> Vec<PlacementRoute> {
    use {aggregates as agg, inventories as inv, resource_providers as rp};
    vec![
        (
            "/resource_providers",
            RouteMethods::new("GET, POST")
                .get(rp::list)
                .post(rp::create),
        ),
        (
            "/resource_providers/{uuid}",
            RouteMethods::new("GET, DELETE, PUT")
                .get(rp::show)
                .delete(rp::delete)
                .put(rp::update),
        ),
        (
            "/resource_providers/{uuid}/inventories",
            RouteMethods::new("GET, POST, PUT, DELETE")
                .get(inv::list)
                .post(inv::create)
                .put(inv::set)
                .delete(inv::delete_all),
        ),
        (
            "/resource_providers/{uuid}/inventories/{resource_class}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(inv::show)
                .put(inv::update)
                .delete(inv::delete),
        ),
        (
            "/resource_providers/{uuid}/usages",
            RouteMethods::new("GET").get(usages::of_provider),
        ),
        (
            "/resource_providers/{uuid}/aggregates",
            RouteMethods::new("GET, PUT").get(agg::show).put(agg::set),
        ),
        (
            "/resource_providers/{uuid}/allocations",
            RouteMethods::new("GET").get(allocations::of_provider),
        ),
        (
            "/resource_providers/{uuid}/traits",
            RouteMethods::new("GET, PUT, DELETE")
                .get(traits::of_provider)
                .put(traits::set_of_provider)
                .delete(traits::delete_of_provider),
        ),
    ]
}

fn name_routes() -> Vec<PlacementRoute> {
    use resource_classes as rc;
    vec![
        (
            "/resource_classes",
            RouteMethods::new("GET, POST")
                .get(rc::list)
                .post(rc::create),
        ),
        (
            "/resource_classes/{name}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(rc::show)
                .put(rc::update)
                .delete(rc::delete),
        ),
        ("/traits", RouteMethods::new("GET").get(traits::list)),
        (
            "/traits/{name}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(traits::show)
                .put(traits::update)
                .delete(traits::delete),
        ),
    ]
}

fn allocation_routes() -> Vec<PlacementRoute> {
    vec![
        (
            "/allocations",
            RouteMethods::new("POST").post(allocations::post),
        ),
        (
            "/allocations/{consumer_uuid}",
            RouteMethods::new("GET, PUT, DELETE")
                .get(allocations::show)
                .put(allocations::put)
                .delete(allocations::delete),
        ),
        (
            "/allocation_candidates",
            RouteMethods::new("GET").get(allocation_candidates::list),
        ),
        ("/usages", RouteMethods::new("GET").get(usages::total)),
        (
            "/reshaper",
            RouteMethods::new("POST").post(reshaper::reshape),
        ),
    ]
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
