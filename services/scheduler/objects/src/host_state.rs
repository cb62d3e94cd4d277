//! Host states: what the scheduler knows of each host.
//!
//! Field names are Nova's `HostState` attributes, because extra specs (`capabilities:free_ram_mb`) and JSON queries
//! (`$free_ram_mb`) refer to them.

mod aggregate;
mod attribute;
mod by_aggregates;
mod candidate;
mod capability;
mod considered;
mod consume;
mod cpu_info;
mod instances;
mod numa;
mod pci;
mod service;

use std::collections::BTreeMap;
use std::net::IpAddr;

pub use berth_wire::host_state::{Cores, CpuBitSet, NumaCell, NumaPages, PciPool};

pub use aggregate::parts;
pub use aggregate::{Aggregate, Aggregates};
pub use attribute::{Attribute, AttributeValue};
pub use by_aggregates::ByAggregates;
pub use candidate::AllocationCandidate;
pub use capability::{Capability, CapabilityRef, Dict, Incomparable, List};
pub use considered::{ConsideredHost, NumaLimits, SchedulerLimits, SurvivingCandidates};
pub use cpu_info::CpuInfo;
pub use instances::{Instance, InstanceQuery, Instances};
pub use numa::{CellSet, NumaTopology};
pub use pci::PciPools;
pub use pci::{PciDevType, PciId, PciSummary};
pub use service::ServiceState;

#[derive(Debug, Clone, PartialEq)]
pub struct HostState {
    /// The service's host name.
    pub host: String,
    /// The hypervisor's name; most hosts have one node of the same name.
    pub nodename: String,
    /// The UUID of the compute node and its root provider.
    pub uuid: String,
    /// The cell by name; alternates stay in the cell of the selected host.
    pub cell: String,
    /// The host's address, if reported.
    pub host_ip: Option<IpAddr>,
    /// Memory for guests in MiB.
    pub total_usable_ram_mb: i64,
    /// Free memory in MiB, without the allocation ratio; negative if overcommitted.
    pub free_ram_mb: i64,
    /// Disk for guests in GiB.
    pub total_usable_disk_gb: i64,
    /// Disk that is free in MiB.
    pub free_disk_mb: i64,
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
    pub cpu_allocation_ratio: f64,
    pub disk_allocation_ratio: f64,
    /// The hypervisor type, for example `QEMU`.
    pub hypervisor_type: String,
    /// `8000000` is 8.0.0; `None` if not reported.
    pub hypervisor_version: Option<i64>,
    /// `cpu_info`, which is JSON as text, if reported.
    pub cpu_info: Option<CpuInfo>,
    /// The kinds of guests it can run: architecture, hypervisor type, VM mode.
    pub supported_instances: Vec<[String; 3]>,
    /// Free-form statistics of the driver.
    pub stats: BTreeMap<String, Capability>,
    pub service: ServiceState,
    pub aggregates: Aggregates,
    pub instances: Instances,
    /// Measurements of `compute_monitors` by name; `None` if the host reports none.
    pub metrics: Option<BTreeMap<String, f64>>,
    /// Devices for passthrough; `None` if the host reports none.
    pub pci: Option<PciPools>,
    /// NUMA cells; `None` if the host reports none.
    pub numa: Option<NumaTopology>,
}
