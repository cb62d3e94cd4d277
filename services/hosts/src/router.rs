//! Routes of the internal API of compute hosts (`/internal/v1/hosts`).

use std::sync::Arc;

use axum::Router;
use berth_http::{
    ApiDialect, BODY_LIMIT, Fault, HeadRequests, Microversion, MicroversionRange, NoAuth2, Policy,
    ServiceLayer, ValidateToken, with_service_layer,
};

use crate::handlers::operations;
use crate::hosts::Hosts;
use crate::policies::default_policy;
use crate::state::HostsApi;

/// The routes have no microversions.
const RANGE: MicroversionRange = MicroversionRange {
    service: "compute-hosts",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 0),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

/// The options of [`router`].
#[derive(Clone)]
pub struct HostsApiOptions {
    /// Validates tokens. The default accepts any token as its own user: for a single machine only.
    pub tokens: Arc<dyn ValidateToken>,
    pub policy: Policy,
    /// The largest request body, in bytes, except that of a host's state.
    pub body_limit: usize,
}

impl Default for HostsApiOptions {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            body_limit: BODY_LIMIT,
        }
    }
}

/// Builds the internal routes for agents and operators.
pub fn router(hosts: Hosts, options: HostsApiOptions) -> Router {
    let policy = Arc::new(options.policy);
    let layer = ServiceLayer {
        dialect: ApiDialect::Placement,
        versions: RANGE,
        tokens: Arc::clone(&options.tokens),
        policy: Arc::clone(&policy),
        body_limit: options.body_limit,
    };
    let api = HostsApi { hosts, policy };
    let routes = operations()
        .router(HeadRequests::Refused)
        .fallback(no_such_route)
        .with_state(api);
    with_service_layer(routes, layer)
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
