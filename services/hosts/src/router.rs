//! The routes, the same for every way to call them.

use std::sync::Arc;

use axum::Router;
use berth_http::{
    Call, Door, Fault, Manners, Methods, Microversion, MicroversionRange, NoAuth2, Policy,
    ValidateToken, door,
};

use crate::handlers::{host_services, host_states, hosts};
use crate::hosts::Hosts;
use crate::policies::default_policy;

/// What these routes speak; they have no microversions of their own.
const RANGE: MicroversionRange = MicroversionRange {
    service: "compute-hosts",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 0),
    error_codes_since: Microversion::new(u16::MAX, 0),
};

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
            body_limit: 8 << 20,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) hosts: Hosts,
    policy: Arc<Policy>,
}

impl Api {
    /// Refuses a caller who may not.
    pub(crate) fn allow(&self, call: &Call, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }
}

/// The internal routes for agents and operators over these hosts.
pub fn router(hosts: Hosts, options: Options) -> Router {
    let entrance = Door {
        manners: Manners::Placement,
        versions: RANGE,
        tokens: Arc::clone(&options.tokens),
        body_limit: options.body_limit,
    };
    let api = Api {
        hosts,
        policy: Arc::new(options.policy),
    };
    let routes = Router::new()
        .route(
            "/internal/v1/hosts",
            Methods::new("GET").get(hosts::list).done(),
        )
        .route(
            "/internal/v1/hosts/{host}",
            Methods::new("DELETE").delete(hosts::delete).done(),
        )
        .route(
            "/internal/v1/hosts/{host}/state",
            Methods::new("GET, PUT")
                .get(host_states::show)
                .put(host_states::put)
                .done(),
        )
        .route(
            "/internal/v1/hosts/{host}/seen",
            Methods::new("PUT").put(host_states::seen).done(),
        )
        .route(
            "/internal/v1/hosts/{host}/service",
            Methods::new("PUT").put(host_services::put).done(),
        )
        .fallback(no_such_route)
        .with_state(api);
    door(routes, entrance)
}

async fn no_such_route() -> Fault {
    Fault::no_such_route()
}
