//! `/internal/v1/hosts/{host}/state` and `/internal/v1/hosts/{host}/seen`: agents report their host's state and send
//! heartbeats.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::host_state::{HostSeenBody, HostStateBody};

use super::not_valid;
use crate::policies::{STATE_UPDATE, service_or_admin};
use crate::state::{HostsApi, HostsOperation};
use crate::state_reports::HostStateError;
use crate::store;

pub(super) fn operations() -> Vec<HostsOperation> {
    vec![
        HostsOperation::get("/internal/v1/hosts/{host}/state", show)
            .rule(service_or_admin("berth:host_state:get")),
        HostsOperation::put("/internal/v1/hosts/{host}/state", put)
            .rule(STATE_UPDATE)
            .large_body(),
        HostsOperation::put("/internal/v1/hosts/{host}/seen", heartbeat)
            .rule(STATE_UPDATE)
            .action("monitor"),
    ]
}

fn fault(error: HostStateError) -> Fault {
    match error {
        HostStateError::Body(error) => not_valid(&error),
        HostStateError::ReportedByOther { .. }
        | HostStateError::NodeOfOtherHost { .. }
        | HostStateError::NodeNameOfOtherHost { .. }
        | HostStateError::OtherProvider { .. }
        | HostStateError::NoProvider { .. }
        | HostStateError::StateMismatch { .. }
        | HostStateError::ConcurrentUpdate { .. } => Fault::conflict(error.to_string()),
        HostStateError::NotFound { .. } => Fault::not_found(error.to_string()),
        HostStateError::ProviderLookup { node, source } => {
            tracing::warn!(%node, error = &*source as &dyn std::error::Error, "looking up a node's resource provider failed");
            Fault::unavailable(format!(
                "Cannot look up resource provider {node} in Placement."
            ))
        }
        HostStateError::Table(error) => store::fault(&error),
    }
}

async fn put(State(api): State<HostsApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: HostStateBody = call.typed()?;
    let host = call.path("host")?;
    let wanted = match call.caller.only_host() {
        Some(_) => api.hosts.store_account_state(host, body).await,
        None => api.hosts.store_state(host, body).await,
    };
    ApiResponse::ok(&wanted.map_err(fault)?)
}

async fn heartbeat(State(api): State<HostsApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: HostSeenBody = call.typed()?;
    let wanted = api
        .hosts
        .record_heartbeat(call.path("host")?, &body.state)
        .await;
    ApiResponse::ok(&wanted.map_err(fault)?)
}

async fn show(State(api): State<HostsApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let state = api.hosts.reported_state(call.path("host")?).await;
    ApiResponse::ok(&state.map_err(fault)?)
}
