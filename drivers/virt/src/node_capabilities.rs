//! What a node is and can run, beside its resources and traits: what schedulers ask of a host in words. A driver that does not
//! tell something leaves it none or empty; whoever asks for it then finds that the host does not have it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use berth_model::PciAddress;

/// What a node is and can run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCapabilities {
    /// Its processors; none where the driver does not tell.
    pub processor: Option<Processor>,
    /// What guests it can run, in the driver's order, each once.
    pub supported_instances: Vec<SupportedInstance>,
    /// Those of its functions that virtual functions can be made of, whether there are any or not.
    pub physical_functions: BTreeSet<PciAddress>,
}

/// What guests a node can run, in Nova's words.
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
    /// The model, as the hypervisor names it: `EPYC-Rome`; none where it names none.
    pub model: Option<String>,
    /// Who made it: `AMD`; none where nobody says.
    pub vendor: Option<String>,
    /// Its features, by the hypervisor's names: `avx2`, `svm`.
    pub features: BTreeSet<String>,
    /// How its CPUs are arranged; none where nobody says.
    pub topology: Option<ProcessorTopology>,
    /// Width of its physical addresses in bits, 32 to 64; none where nobody says.
    pub physical_address_bits: Option<u32>,
}

/// How a node's CPUs are arranged: so many cells, of so many sockets, of so many cores, of so many threads.
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

/// What the host's CPUs have done since it was booted, all together, and how fast they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCpuStats {
    /// In the kernel.
    pub kernel: Duration,
    /// In programs, guests among them.
    pub user: Duration,
    /// Doing nothing.
    pub idle: Duration,
    /// Doing nothing while a disk is waited for.
    pub iowait: Duration,
    /// How fast they are now, in MHz; none where nobody says.
    pub frequency_mhz: Option<u64>,
}
