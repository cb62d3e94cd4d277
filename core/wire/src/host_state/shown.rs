//! Compute hosts as an operator of the cloud sees and changes them: /internal/v1/hosts and what is below it. Ours.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The body of PUT …/service. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostServiceBody {
    /// Whether new guests are kept from the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Why; only with `disabled: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    /// Whether an operator knows that the host is dead, whatever it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_down: Option<bool>,
    /// The cell that the host is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
}

/// The answer to GET /internal/v1/hosts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostsShown {
    pub hosts: Vec<HostShown>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostShown {
    pub host: String,
    pub cell: String,
    /// What its state is called; none where it has to be told anew.
    pub state: Option<String>,
    pub version: String,
    /// Whether an operator of the cloud disabled it.
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    /// Why the host itself wants no new guests; none where they are welcome.
    pub agent_disabled_reason: Option<String>,
    /// Whether an operator says that it is dead.
    pub forced_down: bool,
    /// Seconds since it was last heard of, by the database's clock; none: never.
    pub last_seen_age_s: Option<f64>,
    /// Its compute nodes, in its own order.
    pub nodes: Vec<HostNodeShown>,
}

/// A compute node of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostNodeShown {
    /// Its UUID, which is its root provider's.
    pub uuid: Uuid,
    pub hypervisor_hostname: String,
    /// How many guests it has.
    pub instances: i64,
}
