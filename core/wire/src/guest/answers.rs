//! Responses of the agent's guest API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Response of GET /v1/guests: all guests of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestList {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The guests, by UUID.
    pub guests: Vec<GuestBody>,
}

/// One guest: GET /v1/guests/{uuid}, and the response to changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestBody {
    /// UUID of the guest and its instance.
    pub uuid: Uuid,
    /// Its name on the hypervisor.
    pub name: String,
    /// Name of the node that it is on.
    pub node: String,
    /// `building`, `active`, `stopped`, `paused`, `rescued`, `rescuing`, `unrescuing`, `rebuilding`,
    /// `failing`, `failed` or `deleting`.
    pub status: String,
    /// The hypervisor's state: `running`, `paused`, `shut off` or `crashed`; null if there is no domain or no answer.
    #[serde(default)]
    pub state: Option<String>,
    /// Why it failed, powered off or is blocked; null if nothing is wrong.
    pub reason: Option<String>,
    /// The cause of a failure that another device of the host would not fix: `image` (unusable) or `host` (cannot
    /// create the disks); null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blame: Option<String>,
    /// The host's CPUs that are its alone, in the grammar of `cpu_dedicated_set` (`2-3,8`); empty: none.
    #[serde(default)]
    pub dedicated_cpus: String,
    /// The host NUMA cells it is placed on, in the order of its own cells; empty without NUMA placement.
    #[serde(default)]
    pub host_cells: Vec<u32>,
    /// Its interfaces, in their order.
    #[serde(default)]
    pub interfaces: Vec<InterfaceBody>,
    /// The network functions that the host selected for its ports, and that the ports are not bound to yet. The guest waits for
    /// the action `bind_ports`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbound_functions: Vec<NetworkFunctionBody>,
    /// Its NUMA cells with their placement; only of a single guest, empty without NUMA placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellBody>,
    /// The size of its pages in KiB; only of a single guest with huge pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size_kib: Option<u64>,
    /// How far its image is, while that is coming onto the host; null: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageComing>,
    /// UUIDs of the accelerator requests (ARQs) bound to it.
    pub accelerator_requests: Vec<Uuid>,
    /// Its devices, for display.
    pub devices: Vec<String>,
    /// Its steps, in their order.
    pub steps: Vec<StepBody>,
}

/// One interface of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceBody {
    /// The name of the libvirt network or bridge that it is connected to.
    pub network: String,
    /// Its Ethernet address.
    pub mac: String,
    /// Its IP addresses, as far as the hypervisor knows them.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// A function of a network card (SR-IOV), by the keys of Neutron's `binding:profile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkFunctionBody {
    /// The UUID of the port that gets it.
    pub port: Uuid,
    /// Its PCI address on the host.
    pub pci_slot: String,
    /// Its vendor and product id, such as `8086:154c`.
    pub pci_vendor_info: String,
    /// The physical network that its card is connected to.
    pub physical_network: String,
    /// The MAC address of the physical function; null if unknown.
    #[serde(default)]
    pub pf_mac_address: Option<String>,
    /// Its number among the virtual functions of the card; absent for the whole card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vf_num: Option<u32>,
}

/// One NUMA cell of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellBody {
    /// Its virtual CPUs.
    pub vcpus: Vec<u32>,
    /// Its memory in MiB.
    pub memory_mb: u64,
    /// The host cell that it is on.
    pub host_cell: u32,
    /// The host CPU of each virtual CPU that has one of its own.
    #[serde(default)]
    pub pins: BTreeMap<u32, u32>,
}

/// Response of GET /v1/guests/{uuid}/diagnostics: statistics of a guest. What the hypervisor does not count is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticsBody {
    /// The driver's name.
    pub driver: String,
    /// The memory it may have, in MiB.
    pub memory_maximum_mb: u64,
    /// The memory it has now, in MiB.
    pub memory_used_mb: u64,
    /// The number of its virtual CPUs.
    pub vcpus: u32,
    /// The time that all its virtual CPUs have run, in nanoseconds.
    pub cpu_time_ns: Option<u64>,
    /// Its disks.
    pub disks: Vec<DiskStatisticsBody>,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceStatisticsBody>,
}

/// Statistics of a disk since the guest started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskStatisticsBody {
    /// Its name, such as `vda`.
    pub name: String,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Read requests.
    pub read_requests: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Write requests.
    pub write_requests: Option<u64>,
    /// Failed requests.
    pub errors: Option<u64>,
}

/// Statistics of an interface since the guest started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStatisticsBody {
    /// Its device on the host, such as `vnet0`.
    pub device: Option<String>,
    /// Its Ethernet address.
    pub mac: String,
    /// What it received.
    pub received: TrafficBody,
    /// What it sent.
    pub sent: TrafficBody,
}

/// One direction of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficBody {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Failed packets.
    pub errors: Option<u64>,
    /// Dropped packets.
    pub dropped: Option<u64>,
}

/// An image that is coming onto a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageComing {
    /// `fetch` (downloading), `convert` (converting to raw) or `done`.
    pub stage: String,
    /// How many bytes of the stage are done.
    pub bytes: u64,
    /// The total; null if unknown.
    pub total: Option<u64>,
}

/// One step of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepBody {
    /// `bind`, `check`, `prepare`, `define` or `start`.
    pub step: String,
    /// `begun`, `done`, `undoing` or `undone`.
    pub state: String,
}
