//! Compute hosts for cloud operators: /internal/v1/hosts and below. Berth's own API.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The body of PUT …/service. Missing fields stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostServiceBody {
    /// Whether scheduling to the host is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Why; only with `disabled: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    /// Whether an operator declared the host down, whatever it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_down: Option<bool>,
    /// The cell that the host is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostsShown {
    pub hosts: Vec<HostShown>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostShown {
    pub host: String,
    pub cell: String,
    /// The identifier of its state; missing if it must report again.
    pub state: Option<String>,
    pub version: String,
    /// Whether a cloud operator disabled it.
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    /// Why the host itself disabled scheduling; missing if enabled.
    pub agent_disabled_reason: Option<String>,
    /// Whether an operator declared it down.
    pub forced_down: bool,
    /// Seconds since its last heartbeat, by the database's clock; missing if there was none.
    pub last_seen_age_s: Option<f64>,
    /// Its compute nodes, in its own order.
    pub nodes: Vec<HostNodeShown>,
}

/// A compute node of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNodeShown {
    /// The UUID of the node and its root provider.
    pub uuid: Uuid,
    pub hypervisor_hostname: String,
    /// The number of guests.
    pub instances: i64,
}
