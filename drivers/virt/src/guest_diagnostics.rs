//! What a hypervisor counts of a guest, and the addresses that it has seen.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_model::MacAddress;

/// The addresses of interfaces, by Ethernet address.
pub type InterfaceAddresses = BTreeMap<MacAddress, Vec<IpAddr>>;

/// Statistics of a guest. What the hypervisor does not count is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GuestDiagnostics {
    /// The memory it may have, in MiB.
    pub memory_maximum_mib: u64,
    /// The memory it has now, in MiB.
    pub memory_used_mib: u64,
    /// The number of its virtual CPUs.
    pub vcpus: u32,
    /// The time that all its virtual CPUs have run, in nanoseconds.
    pub cpu_time_ns: Option<u64>,
    /// Its disks.
    pub disks: Vec<DiskStatistics>,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceStatistics>,
}

/// Statistics of a disk since the guest started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskStatistics {
    /// Its name in the guest's definition, such as `vda`.
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceStatistics {
    /// Its device on the host, such as `vnet0`.
    pub device: Option<String>,
    /// Its Ethernet address.
    pub mac: String,
    /// What it received.
    pub received: TrafficStatistics,
    /// What it sent.
    pub sent: TrafficStatistics,
}

/// One direction of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficStatistics {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Failed packets.
    pub errors: Option<u64>,
    /// Dropped packets.
    pub dropped: Option<u64>,
}
