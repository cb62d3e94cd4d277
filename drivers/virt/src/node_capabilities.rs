//! A node's capabilities apart from resources and traits, which schedulers filter by. A driver leaves unknown values
//! `None` or empty; for schedulers the host then does not have them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use berth_model::PciAddress;

/// The capabilities of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCapabilities {
    /// The processors; `None` if the driver does not report them.
    pub processor: Option<Processor>,
    /// The supported kinds of guests, each once, in the driver's order.
    pub supported_instances: Vec<SupportedInstance>,
    /// Its functions that support virtual functions, even if none exist.
    pub physical_functions: BTreeSet<PciAddress>,
}

/// A supported kind of guests, in Nova's terms.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SupportedInstance {
    /// The architecture: `x86_64`, `aarch64`, `i686`.
    pub arch: String,
    /// The hypervisor's type: `kvm`, `qemu`, `fake`.
    pub hv_type: String,
    /// The VM mode: `hvm`, `exe`.
    pub vm_mode: String,
}

impl fmt::Display for SupportedInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.arch, self.hv_type, self.vm_mode)
    }
}

/// A node's processors; all are alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processor {
    /// The architecture: `x86_64`, `aarch64`.
    pub arch: String,
    /// The hypervisor's name of the model: `EPYC-Rome`; `None` if unknown.
    pub model: Option<String>,
    /// The vendor: `AMD`; `None` if unknown.
    pub vendor: Option<String>,
    /// Its features, by the hypervisor's names: `avx2`, `svm`.
    pub features: BTreeSet<String>,
    /// The topology; `None` if unknown.
    pub topology: Option<ProcessorTopology>,
    /// The width of physical addresses in bits, 32 to 64; `None` if unknown.
    pub physical_address_bits: Option<u32>,
}

/// The topology of a node's CPUs: number of cells, sockets per cell, cores per socket, threads per core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTopology {
    /// NUMA cells, at least 1.
    pub cells: u32,
    /// Sockets in a cell, at least 1.
    pub sockets: u32,
    /// Cores in a socket, at least 1.
    pub cores: u32,
    /// Threads of a core, at least 1.
    pub threads: u32,
}

/// The total CPU times of the host since boot, and the CPU frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCpuStats {
    /// CPU time in the kernel, over all CPUs.
    pub kernel: Duration,
    /// In programs, guests among them.
    pub user: Duration,
    /// Idle CPU time, over all CPUs.
    pub idle: Duration,
    /// Doing nothing while a disk is waited for.
    pub iowait: Duration,
    /// The current frequency in MHz; `None` if unknown.
    pub frequency_mhz: Option<u64>,
}
