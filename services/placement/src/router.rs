//! The routes of the Placement API.

use std::sync::Arc;

use axum::Router;
use berth_http::{
    ApiDialect, ApiRequest, BODY_LIMIT, CorsOptions, Fault, HeadRequests, NoAuth2, Operation,
    Policy, Prefix, ServiceLayer, ValidateToken, cors, under, with_service_layer,
};
use berth_store::SqlStore;

use crate::claim_queue::ClaimQueue;
use crate::handlers::operations;
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
    /// The largest request body, in bytes, except those of a reshape and of `POST /allocations`: a reshape of 1,000 consumers
    /// takes about 300 kB.
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
            body_limit: BODY_LIMIT,
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

pub(crate) type PlacementOperation = Operation<Placement>;

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
    /// Checks the operation's policy rule.
    pub(crate) fn allow(&self, call: &ApiRequest) -> Result<(), Fault> {
        self.options.policy.allow(call, None)
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
        policy: Arc::new(options.policy.clone()),
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
    let routes = operations()
        .router(HeadRequests::Refused)
        .fallback(no_such_route)
        .with_state(placement);
    under(cors(with_service_layer(routes, entrance), browsers), prefix)
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
