//! The routes, the same for every way to call them.

use std::sync::Arc;

use axum::Router;
use berth_http::{
    Call, Cors, Door, Fault, Manners, Methods, NoAuth2, Policy, Prefix, ValidateToken, cors, door,
    under,
};
use berth_store::SqlStore;

use crate::claims::Claims;
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
pub struct Options {
    /// Who believes tokens. The default takes the token's own word: for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    /// Who may do what.
    pub policy: Policy,
    /// The largest request body, in bytes. A reshape of 1,000 consumers takes about 300 kB.
    pub body_limit: usize,
    /// The project of consumers made before 1.8, where none is named.
    pub incomplete_consumer_project_id: String,
    /// The user of consumers made before 1.8, where none is named.
    pub incomplete_consumer_user_id: String,
    /// Whether candidates come in another order each time, and another choice of them where there are more than the limit.
    pub randomize_allocation_candidates: bool,
    /// How many candidates one answer has at most, whatever its limit says. A request for which every combination of a few
    /// hundred devices is good has more of them than anybody's memory holds.
    pub max_allocation_candidates: usize,
    /// Where candidates are searched.
    pub candidates_from: CandidatesFrom,
    /// Which web sites' scripts may call. None by default.
    pub cors: Cors,
    /// What stands before every path, in links too. Nothing by default.
    pub path_prefix: Prefix,
}

const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";

impl Default for Options {
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
            cors: Cors::default(),
            path_prefix: Prefix::default(),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Placement {
    pub(crate) store: SqlStore,
    /// Every write goes through it.
    pub(crate) snapshots: Snapshots,
    /// But those of one consumer's allocations, which share transactions, through this.
    pub(crate) claims: Arc<Claims>,
    pub(crate) searches: Arc<Searches>,
    pub(crate) consumers: Arc<ConsumerReader>,
    pub(crate) options: Arc<Options>,
}

impl Placement {
    /// Refuses a caller who may not.
    pub(crate) fn allow(&self, call: &Call, rule: &'static str) -> Result<(), Fault> {
        self.options.policy.authorize(&call.caller, rule, None)
    }
}

/// The Placement API over a prepared database ([`crate::prepare`]).
///
/// Routers over clones of one store know of each other's writes.
pub fn router(store: SqlStore, options: Options) -> Router {
    let entrance = Door {
        manners: Manners::Placement,
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
        claims: Arc::new(Claims::new(&snapshots)),
        snapshots,
        store,
        options: Arc::new(options),
    };
    let routes = routes()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            router.route(path, methods.done())
        })
        .fallback(no_such_route)
        .with_state(placement);
    under(cors(door(routes, entrance), browsers), prefix)
}

/// A path and its methods.
type Route = (&'static str, Methods<Placement>);

/// Every path of the API; the OpenAPI document tells them all.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = vec![("/", Methods::new("GET").get(root::show))];
    routes.extend(provider_routes());
    routes.extend(name_routes());
    routes.extend(allocation_routes());
    routes
}

fn provider_routes() -> Vec<Route> {
    use {aggregates as agg, inventories as inv, resource_providers as rp};
    vec![
        (
            "/resource_providers",
            Methods::new("GET, POST").get(rp::list).post(rp::create),
        ),
        (
            "/resource_providers/{uuid}",
            Methods::new("GET, DELETE, PUT")
                .get(rp::show)
                .delete(rp::delete)
                .put(rp::update),
        ),
        (
            "/resource_providers/{uuid}/inventories",
            Methods::new("GET, POST, PUT, DELETE")
                .get(inv::list)
                .post(inv::create)
                .put(inv::set)
                .delete(inv::delete_all),
        ),
        (
            "/resource_providers/{uuid}/inventories/{resource_class}",
            Methods::new("GET, PUT, DELETE")
                .get(inv::show)
                .put(inv::update)
                .delete(inv::delete),
        ),
        (
            "/resource_providers/{uuid}/usages",
            Methods::new("GET").get(usages::of_provider),
        ),
        (
            "/resource_providers/{uuid}/aggregates",
            Methods::new("GET, PUT").get(agg::show).put(agg::set),
        ),
        (
            "/resource_providers/{uuid}/allocations",
            Methods::new("GET").get(allocations::of_provider),
        ),
        (
            "/resource_providers/{uuid}/traits",
            Methods::new("GET, PUT, DELETE")
                .get(traits::of_provider)
                .put(traits::set_of_provider)
                .delete(traits::delete_of_provider),
        ),
    ]
}

fn name_routes() -> Vec<Route> {
    use resource_classes as rc;
    vec![
        (
            "/resource_classes",
            Methods::new("GET, POST").get(rc::list).post(rc::create),
        ),
        (
            "/resource_classes/{name}",
            Methods::new("GET, PUT, DELETE")
                .get(rc::show)
                .put(rc::update)
                .delete(rc::delete),
        ),
        ("/traits", Methods::new("GET").get(traits::list)),
        (
            "/traits/{name}",
            Methods::new("GET, PUT, DELETE")
                .get(traits::show)
                .put(traits::update)
                .delete(traits::delete),
        ),
    ]
}

fn allocation_routes() -> Vec<Route> {
    vec![
        ("/allocations", Methods::new("POST").post(allocations::post)),
        (
            "/allocations/{consumer_uuid}",
            Methods::new("GET, PUT, DELETE")
                .get(allocations::show)
                .put(allocations::put)
                .delete(allocations::delete),
        ),
        (
            "/allocation_candidates",
            Methods::new("GET").get(allocation_candidates::list),
        ),
        ("/usages", Methods::new("GET").get(usages::total)),
        ("/reshaper", Methods::new("POST").post(reshaper::reshape)),
    ]
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
