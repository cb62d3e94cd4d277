//! `/internal/v1/hosts/{host}/service`: operators disable or enable a host, or force it down.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::BodyError;
use berth_wire::host_state::HostServiceBody;

use super::hosts::{fault, host_body};
use super::not_valid;
use crate::compute_hosts::{ServiceStatus, ServiceUpdate};
use crate::policies::admin;
use crate::state::{HostsApi, HostsOperation};

pub(super) fn operations() -> Vec<HostsOperation> {
    vec![
        HostsOperation::put("/internal/v1/hosts/{host}/service", put)
            .rule(admin("berth:host_service:update")),
    ]
}

fn update(body: HostServiceBody) -> Result<ServiceUpdate, BodyError> {
    let status = match (body.disabled, body.disabled_reason) {
        (Some(true), reason) => Some(ServiceStatus::Disabled { reason }),
        (Some(false), None) => Some(ServiceStatus::Enabled),
        (None, None) => None,
        (_, Some(_)) => {
            let reason = "a reason is only given with \"disabled\": true";
            return Err(BodyError::field("disabled_reason", reason));
        }
    };
    Ok(ServiceUpdate {
        status,
        forced_down: body.forced_down,
        cell: body.cell,
    })
}

async fn put(State(api): State<HostsApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let update = update(call.typed()?).map_err(|error| not_valid(&error))?;
    let host = api.hosts.update_service(call.path("host")?, update).await;
    ApiResponse::ok(&host_body(host.map_err(fault)?))
}
