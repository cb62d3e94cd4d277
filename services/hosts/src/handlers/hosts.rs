//! /internal/v1/hosts: all hosts; one that is gone is removed.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::host_state::{HostNodeShown, HostShown, HostsShown};

use super::host_services::fault;
use crate::compute_hosts::{ComputeHost, ServiceStatus};
use crate::policies;
use crate::router::Api;

/// As it is told.
pub(super) fn shown(host: ComputeHost) -> HostShown {
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

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::HOST_GET_ALL)?;
    let hosts = api.hosts.hosts().await.map_err(fault)?;
    Answer::ok(&HostsShown {
        hosts: hosts.into_iter().map(shown).collect(),
    })
}

pub(crate) async fn delete(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::HOST_DELETE)?;
    let removed = api.hosts.remove(call.path("host")?).await;
    removed.map_err(fault)?;
    Ok(Answer::no_content())
}
