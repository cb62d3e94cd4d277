//! What a compute host's agent tells the scheduler: PUT /internal/v1/hosts/{host}/state, and PUT /internal/v1/hosts/{host}/seen
//! where nothing changed since. Ours: Nova's agents write the same into its database.
//!
//! The body is the host's whole state, never a difference, so that either side can be lost and made again from the other. Field
//! names are those of Nova's `ComputeNode`, where it has them. Callers: `agent` tells, `services/hosts` keeps.

mod numa;
mod pci;
mod shown;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use numa::{MemoryPagesBody, NumaCellBody};
pub use pci::PciPoolBody;
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
    /// Why the host's operator, or the agent itself, wants no new guests here; none where they are welcome. May be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeStateBody {
    /// The compute node's, which is its root provider's.
    pub uuid: Uuid,
    /// Its name, which is its root provider's.
    pub hypervisor_hostname: String,
    /// `QEMU`, say.
    pub hypervisor_type: String,
    /// `8000000` is 8.0.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor_version: Option<i64>,
    /// Where other hosts reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ip: Option<core::net::IpAddr>,
    pub vcpus: i64,
    /// CPUs that guests have, and what is reserved for the host.
    pub vcpus_used: i64,
    pub memory_mb: i64,
    /// Memory that guests have, and what is reserved for the host, in MiB.
    pub memory_mb_used: i64,
    pub local_gb: i64,
    /// Disk that guests were promised, and what is reserved for the host, in GiB.
    pub local_gb_used: i64,
    /// Disk that is really free, in GiB; none where the driver does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_available_least: Option<i64>,
    /// Of CPUs, as the node's inventory has it.
    pub cpu_allocation_ratio: f64,
    /// Of memory, as the node's inventory has it.
    pub ram_allocation_ratio: f64,
    /// Of disk, as the node's inventory has it.
    pub disk_allocation_ratio: f64,
    /// What the host's processors are: a text that holds JSON, as Nova's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_info: Option<String>,
    /// What guests it can run: architecture, hypervisor type, VM mode.
    #[serde(default)]
    pub supported_instances: Vec<[String; 3]>,
    /// Guests on the node, each by UUID.
    #[serde(default)]
    pub instances: BTreeMap<Uuid, NodeInstanceBody>,
    /// Guests that are being built, resized, snapshotted or moved.
    #[serde(default)]
    pub num_io_ops: i64,
    /// Builds that failed since the last one that did not.
    #[serde(default)]
    pub failed_builds: i64,
    /// Free-form, told by the driver.
    #[serde(default)]
    pub stats: BTreeMap<String, serde_json::Value>,
    /// What `compute_monitors` measure, by name; none where none is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BTreeMap<String, f64>>,
    /// Devices for pass-through that are free, in pools; none where the host tells of none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_device_pools: Option<Vec<PciPoolBody>>,
    /// NUMA cells, in the host's order; none where the host tells of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_topology: Option<Vec<NumaCellBody>>,
}

/// A guest on a node, as far as filters and weighers look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeInstanceBody {
    /// The id of its flavor in the API; its name, where flavors have no id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavorid: Option<String>,
    /// Properties of its image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub image_properties: BTreeMap<String, String>,
}

/// The body of PUT …/seen: the agent lives, and its host's state is what it told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSeenBody {
    /// [`HostWanted::state`] of the answer to the last state that was told.
    pub state: String,
}

/// The answer to both. 409 to PUT …/seen: the state that is named is not the one that is known; it has to be told whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWanted {
    /// What the state that was told is called.
    pub state: String,
    /// Why an operator of the cloud wants no new guests on this host; none where they are welcome. May be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}
