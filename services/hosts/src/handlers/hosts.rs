//! `/internal/v1/hosts`: operators list hosts and remove one.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::host_state::{HostNodeShown, HostShown, HostsShown};

use super::not_valid;
use crate::compute_hosts::{ComputeHost, HostError, ServiceStatus};
use crate::policies::{admin, service_or_admin};
use crate::state::{HostsApi, HostsOperation};
use crate::store;

pub(super) fn operations() -> Vec<HostsOperation> {
    vec![
        HostsOperation::get("/internal/v1/hosts", list)
            .rule(service_or_admin("berth:host:get_all")),
        HostsOperation::delete("/internal/v1/hosts/{host}", delete)
            .rule(admin("berth:host:delete")),
    ]
}

pub(super) fn fault(error: HostError) -> Fault {
    match error {
        HostError::Body(error) => not_valid(&error),
        HostError::NotFound { .. } => Fault::not_found(error.to_string()),
        HostError::Table(error) => store::fault(&error),
    }
}

/// The response body of one host.
pub(super) fn host_body(host: ComputeHost) -> HostShown {
    let (disabled, disabled_reason) = match host.status {
        ServiceStatus::Enabled => (false, None),
        ServiceStatus::Disabled { reason } => (true, reason),
    };
    let node = |node: crate::compute_hosts::ComputeNode| HostNodeShown {
        uuid: node.uuid,
        hypervisor_hostname: node.hypervisor_hostname,
        instances: node.instances,
    };
    HostShown {
        host: host.host,
        cell: host.cell,
        state: host.state,
        version: host.version,
        disabled,
        disabled_reason,
        agent_disabled_reason: host.agent_disabled_reason,
        forced_down: host.forced_down,
        last_seen_age_s: host.last_seen_age_s,
        nodes: host.nodes.into_iter().map(node).collect(),
    }
}

async fn list(State(api): State<HostsApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let hosts = api.hosts.hosts().await.map_err(fault)?;
    ApiResponse::ok(&HostsShown {
        hosts: hosts.into_iter().map(host_body).collect(),
    })
}

async fn delete(State(api): State<HostsApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let removed = api.hosts.remove(call.path("host")?).await;
    removed.map_err(fault)?;
    Ok(ApiResponse::no_content())
}
