//! An agent's report of its host for the scheduler: PUT /internal/v1/hosts/{host}/state, and the heartbeat
//! PUT /internal/v1/hosts/{host}/seen if nothing changed. Berth's own API: Nova's agents write the same to its database.
//!
//! A report is the host's whole state, never a difference, so that either side can be restored from the other. Field names are
//! those of Nova's `ComputeNode`. Callers: the agent reports, `services/hosts` stores, the scheduler uses the same cells and pools.

mod cores;
mod cpu_bit_set;
mod numa;
mod pci;
mod shown;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use cores::Cores;
pub use cpu_bit_set::CpuBitSet;
pub use numa::{NumaCell, NumaPages};
pub use pci::PciPool;
pub use shown::{HostNodeShown, HostServiceBody, HostShown, HostsShown};

/// The body of PUT …/state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostStateBody {
    /// The agent as a service.
    pub service: ServiceBody,
    /// The compute nodes of the host; most have one.
    pub nodes: Vec<NodeStateBody>,
}

/// The agent as a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceBody {
    pub version: String,
    /// Why the operator or the agent disabled scheduling to this host; missing if enabled. May be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeStateBody {
    /// The UUID of the compute node and its root provider.
    pub uuid: Uuid,
    /// The name of the compute node and its root provider.
    pub hypervisor_hostname: String,
    /// For example `QEMU`.
    pub hypervisor_type: String,
    /// `8000000` is 8.0.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor_version: Option<i64>,
    /// The address at which other hosts reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ip: Option<core::net::IpAddr>,
    pub vcpus: i64,
    /// CPUs used by guests or reserved for the host.
    pub vcpus_used: i64,
    pub memory_mb: i64,
    /// Memory that guests have, and what is reserved for the host, in MiB.
    pub memory_mb_used: i64,
    pub local_gb: i64,
    /// Disk promised to guests or reserved for the host, in GiB.
    pub local_gb_used: i64,
    /// Disk that is actually free, in GiB; missing if the driver does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_available_least: Option<i64>,
    /// For CPUs, as in the node's inventory.
    pub cpu_allocation_ratio: f64,
    /// For memory, as in the node's inventory.
    pub ram_allocation_ratio: f64,
    /// For disk, as in the node's inventory.
    pub disk_allocation_ratio: f64,
    /// The host's processors: JSON as text, like Nova's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_info: Option<String>,
    /// The kinds of guests it can run: architecture, hypervisor type, VM mode.
    #[serde(default)]
    pub supported_instances: Vec<[String; 3]>,
    /// Guests on the node, each by UUID.
    #[serde(default)]
    pub instances: BTreeMap<Uuid, NodeInstanceBody>,
    /// Guests that are being built, resized, snapshotted or moved.
    #[serde(default)]
    pub num_io_ops: i64,
    /// Failed builds since the last successful one.
    #[serde(default)]
    pub failed_builds: i64,
    /// Free-form statistics of the driver.
    #[serde(default)]
    pub stats: BTreeMap<String, serde_json::Value>,
    /// The measurements of `compute_monitors`, by name; missing if none is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BTreeMap<String, f64>>,
    /// Free devices for passthrough, in pools; missing if the host reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_device_pools: Option<Vec<PciPool>>,
    /// NUMA cells, in the host's order; missing if the host reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_topology: Option<Vec<NumaCell>>,
}

/// A guest on a node, with the properties that filters and weighers use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeInstanceBody {
    /// The API id of its flavor; its name if flavors have no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavorid: Option<String>,
    /// Properties of its image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_properties: BTreeMap<String, String>,
}

/// The body of PUT …/seen: a heartbeat that confirms the last reported state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSeenBody {
    /// [`HostWanted::state`] of the answer to the last report.
    pub state: String,
}

/// The answer to both. 409 to PUT …/seen: the service has another state, so the whole state must be reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWanted {
    /// The identifier of the reported state.
    pub state: String,
    /// Why a cloud operator disabled scheduling to this host; missing if enabled. May be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}
