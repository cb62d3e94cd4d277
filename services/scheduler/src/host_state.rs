//! A host as the scheduler sees it: what it has, what it runs, what its operator says of it.
//!
//! Field names are Nova's `HostState` attributes, because extra specs (`capabilities:free_ram_mb`) and JSON queries
//! (`$free_ram_mb`) name them.

mod aggregate;
mod candidate;
mod considered;
mod cpus;
mod numa;
mod pci;
mod service;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

pub use aggregate::{Aggregate, Aggregates};
pub use candidate::AllocationCandidate;
pub use considered::{ConsideredHost, Limits, NumaLimits, Surviving};
pub use cpus::CpuSet;
pub use numa::{MemoryPages, NumaCell, NumaTopology};
pub use pci::{PciPool, PciPools};
pub use service::Service;

/// One compute node.
#[derive(Debug, Clone, PartialEq)]
pub struct HostState {
    /// The service's host name.
    pub host: String,
    /// The hypervisor's name; most hosts have one node of their own name.
    pub nodename: String,
    /// The compute node's, which is its root provider's in Placement.
    pub uuid: String,
    /// The cell by name; alternates stay in the cell of the selected host.
    pub cell: String,
    /// Where the host is reached; none where it was not told.
    pub host_ip: Option<IpAddr>,
    /// Memory for guests in MiB.
    pub total_usable_ram_mb: i64,
    /// Memory that is free in MiB, without the allocation ratio; negative where more is promised than there is.
    pub free_ram_mb: i64,
    /// Disk for guests in GiB.
    pub total_usable_disk_gb: i64,
    /// Disk that is free in MiB.
    pub free_disk_mb: i64,
    /// Host CPUs.
    pub vcpus_total: i64,
    /// CPUs that guests have.
    pub vcpus_used: i64,
    /// Guests on the host.
    pub num_instances: i64,
    /// Guests that are being built, resized, snapshotted or moved.
    pub num_io_ops: i64,
    /// Builds that failed in a row.
    pub failed_builds: i64,
    /// Of memory: 1.5 allows to promise half as much again.
    pub ram_allocation_ratio: f64,
    /// Of CPUs.
    pub cpu_allocation_ratio: f64,
    /// Of disk.
    pub disk_allocation_ratio: f64,
    /// `QEMU`, say.
    pub hypervisor_type: String,
    /// `8000000` is 8.0.0; none where it was not told.
    pub hypervisor_version: Option<i64>,
    /// What `cpu_info` says, which travels as JSON in a text; none where it was not told.
    pub cpu_info: Option<CpuInfo>,
    /// What guests it can run: architecture, hypervisor type, VM mode.
    pub supported_instances: Vec<[String; 3]>,
    /// Free-form, told by the driver.
    pub stats: BTreeMap<String, Value>,
    /// Of its agent.
    pub service: Service,
    /// The aggregates it is in.
    pub aggregates: Aggregates,
    /// The guests on it.
    pub instances: Instances,
    /// By name, where `compute_monitors` measure any; none where the host tells none at all.
    pub metrics: Option<BTreeMap<String, f64>>,
    /// Devices for pass-through; none where the host tells of none at all.
    pub pci: Option<PciPools>,
    /// NUMA cells; none where the host tells of none.
    pub numa: Option<NumaTopology>,
}

/// `cpu_info` as it came, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuInfo {
    text: String,
    value: Option<Value>,
}

impl CpuInfo {
    /// Reads it once; a text that is no JSON is kept and has no fields.
    #[must_use]
    pub fn new(text: String) -> Self {
        let value = serde_json::from_str(&text).ok();
        Self { text, value }
    }

    /// As it came.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it says; none for a text that is no JSON.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }
}

/// The guests on a host, by uuid.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Instances(BTreeMap<String, BTreeMap<String, String>>);

impl Instances {
    /// With the image properties that each guest was booted with, by uuid.
    #[must_use]
    pub fn new(by_uuid: BTreeMap<String, BTreeMap<String, String>>) -> Self {
        Self(by_uuid)
    }

    /// Whether a guest is on the host; uuids are compared letter by letter.
    #[must_use]
    pub fn contains(&self, uuid: &str) -> bool {
        self.0.contains_key(uuid)
    }

    /// All, with the image properties of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        self.0.iter().map(|(uuid, image)| (uuid.as_str(), image))
    }

    /// One more.
    pub fn insert(&mut self, uuid: String, image: BTreeMap<String, String>) {
        self.0.insert(uuid, image);
    }
}
