//! The NUMA topology of an instance: the cells that its flavor and its image request.
//!
//! It is derived once, when the request is created ([`InstanceNumaTopology::derive`]). An invalid topology is refused
//! there, with the name of the extra spec or the image property. `numa` then searches host cells for the cells.

mod cpus;
mod derive;
mod error;
mod pages;
mod pinning;
mod source;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::host_state::CpuBitSet;

pub use cpus::pci_numa_affinity_policy;
pub use error::NumaRequestError;
pub use pages::PageSize;
pub use pinning::CpuCounts;

/// The cells that an instance is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceNumaTopology {
    pub cells: Vec<InstanceNumaCell>,
    /// `hw:cpu_policy`; `None` is the same as `shared`.
    pub cpu_policy: Option<CpuAllocationPolicy>,
    /// `hw:cpu_thread_policy`; `None` is the same as `prefer`.
    pub cpu_thread_policy: Option<CpuThreadPolicy>,
    pub emulator_threads_policy: Option<EmulatorThreadsPolicy>,
    /// `hw:mem_page_size`; none where the smallest pages will do.
    pub pagesize: Option<PageSize>,
}

/// One cell of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceNumaCell {
    /// The instance's CPUs that share the host's.
    pub cpuset: CpuBitSet,
    /// The instance's CPUs that have one of the host's each.
    pub pcpuset: CpuBitSet,
    pub memory: i64,
}

/// Whether an instance's CPUs are shared or dedicated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuAllocationPolicy {
    /// They share the host's with those of other instances.
    Shared,
    /// Each has a CPU of the host for itself.
    Dedicated,
    /// Some are shared and some are dedicated.
    Mixed,
}

/// How thread siblings of dedicated CPUs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuThreadPolicy {
    /// Threads of one core are used together if possible.
    Prefer,
    /// No other instance is on the core.
    Isolate,
    /// Threads of one core are used together; hosts on which this is impossible are rejected.
    Require,
}

/// Where the hypervisor's own threads of an instance run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmulatorThreadsPolicy {
    /// On CPUs that are shared.
    Share,
    /// On a dedicated CPU more, of the cell that the first cell of the instance is on.
    Isolate,
}

impl CpuAllocationPolicy {
    const ALL: [(&'static str, Self); 3] = [
        ("dedicated", Self::Dedicated),
        ("shared", Self::Shared),
        ("mixed", Self::Mixed),
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

impl CpuThreadPolicy {
    const ALL: [(&'static str, Self); 3] = [
        ("prefer", Self::Prefer),
        ("isolate", Self::Isolate),
        ("require", Self::Require),
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

impl EmulatorThreadsPolicy {
    const ALL: [(&'static str, Self); 2] = [("isolate", Self::Isolate), ("share", Self::Share)];

    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

fn name<T: PartialEq>(all: &[(&'static str, T)], one: T) -> &'static str {
    let found = all.iter().find(|(_, it)| *it == one);
    found.map_or("", |(name, _)| name)
}

impl InstanceNumaTopology {
    /// Whether a CPU of the host is each some of the instance's alone: those are not overcommitted, nor is the memory.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        matches!(
            self.cpu_policy,
            Some(CpuAllocationPolicy::Dedicated | CpuAllocationPolicy::Mixed)
        )
    }

    /// Whether some of its CPUs share the host's.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.cpu_policy != Some(CpuAllocationPolicy::Dedicated)
    }
}

/// In Nova's form, in which each cell repeats the values that apply to all cells.
impl Serialize for InstanceNumaTopology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cells: Vec<_> = (0..self.cells.len())
            .map(|id| Cell { all: self, id })
            .collect();
        let emulator = self
            .emulator_threads_policy
            .map(EmulatorThreadsPolicy::name);
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("cells", &cells)?;
        map.serialize_entry("emulator_threads_policy", &emulator)?;
        map.end()
    }
}

/// The serialised form of a cell.
struct Cell<'a> {
    all: &'a InstanceNumaTopology,
    id: usize,
}

impl Serialize for Cell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (all, cell) = (self.all, &self.all.cells[self.id]);
        let thread_policy = all.cpu_thread_policy.map(CpuThreadPolicy::name);
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("cpuset", &cell.cpuset)?;
        map.serialize_entry("pcpuset", &cell.pcpuset)?;
        map.serialize_entry("memory", &cell.memory)?;
        map.serialize_entry("pagesize", &all.pagesize.map(PageSize::number))?;
        map.serialize_entry("cpu_policy", &all.cpu_policy.map(CpuAllocationPolicy::name))?;
        map.serialize_entry("cpu_thread_policy", &thread_policy)?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
