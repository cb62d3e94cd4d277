//! The router of the compute API. Its routes may be mounted below a prefix (`berth_http::under`), which links include.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use berth_http::{
    ApiDialect, BODY_LIMIT, Fault, HeadRequests, NoAuth2, Policy, ServiceLayer, ValidateToken,
    with_service_layer,
};
use http::Uri;

use crate::compute::Compute;
use crate::handlers::operations;
use crate::microversions::RANGE;
use crate::policies::default_policy;
use crate::project_path;
use crate::state::ComputeApi;

/// How the routes behave.
#[derive(Clone)]
pub struct ComputeApiOptions {
    /// Validates tokens. The default is `noauth2`, for one machine only.
    pub tokens: Arc<dyn ValidateToken>,
    pub policy: Policy,
    /// The largest request body, in bytes.
    pub body_limit: usize,
}

impl Default for ComputeApiOptions {
    fn default() -> Self {
        Self {
            tokens: Arc::new(NoAuth2::default()),
            policy: default_policy(),
            body_limit: BODY_LIMIT,
        }
    }
}

pub fn router(compute: Compute, options: ComputeApiOptions) -> Router {
    let policy = Arc::new(options.policy);
    let entrance = ServiceLayer {
        dialect: ApiDialect::Compute,
        versions: RANGE,
        tokens: Arc::clone(&options.tokens),
        policy: Arc::clone(&policy),
        body_limit: options.body_limit,
    };
    let api = ComputeApi::new(compute, policy, options.tokens);
    let operations = operations();
    let paths: Vec<&str> = operations.declarations().map(|one| one.path).collect();
    let routes = operations.router(HeadRequests::Refused);
    let routes = routes.fallback(no_such_route).with_state(api);
    let behind_door = routes.layer(from_fn(project_path::check));
    project_path::without_projects(with_service_layer(behind_door, entrance), paths)
}

/// Nova passes requests for these on to a network service. Clients use them if the catalog has no network service, for
/// instance `openstack server create --network NAME`.
const OF_NETWORK_SERVICE: [&str; 7] = [
    "os-fixed-ips",
    "os-floating-ip-pools",
    "os-floating-ips",
    "os-networks",
    "os-security-group-rules",
    "os-security-groups",
    "os-tenant-networks",
];

/// Names the missing route, because users of Nova may expect an unimplemented one.
async fn no_such_route(uri: Uri) -> Fault {
    let path = uri.path();
    let is_of_networks = path
        .split('/')
        .any(|part| OF_NETWORK_SERVICE.contains(&part));
    Fault::not_found(match is_of_networks {
        true => format!(
            "This cloud has no network service, so this compute API does not offer {path}. Create servers without ports and \
             security groups: on the network that the operator chose (openstack server create --nic auto), or on none \
             (--no-network)."
        ),
        false => format!("This compute API does not offer {path}."),
    })
}
