//! Virtual CPUs and memory of a guest, and their placement on the host.

use serde::{Deserialize, Serialize};

use super::cpus::CpuPinning;
use super::error::GuestSpecError;
use super::text;
use crate::CpuSet;

/// More virtual CPUs than any machine type takes.
const MOST_VCPUS: u32 = 4096;
/// More memory than any machine has: 1 PiB.
const MOST_MEMORY_MIB: u64 = 1 << 30;

/// The host pages that a guest's memory is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPages {
    /// The host's usual ones.
    Small,
    /// Huge pages of one size, as `hw:mem_page_size` requests them.
    Huge {
        /// The size of one in KiB, for example 2048 or 1048576.
        size_kib: u64,
    },
}

/// One of a guest's NUMA cells, and the host cell it is placed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestNumaCell {
    /// The guest's virtual CPUs on it, numbered from 0.
    #[serde(with = "text")]
    pub vcpus: CpuSet,
    /// The guest's memory on it, in MiB.
    pub memory_mib: u64,
    /// The number of the host's NUMA cell.
    pub host_cell: u32,
}

/// A guest's virtual CPUs and memory. Created by [`GuestTopology::plain`] and then placed by [`GuestTopology::pinned`],
/// [`GuestTopology::on_cells`], [`GuestTopology::with_pages`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TopologyRecord", into = "TopologyRecord")]
pub struct GuestTopology {
    vcpus: u32,
    memory_mib: u64,
    cpu_set: Option<CpuSet>,
    pinning: Option<CpuPinning>,
    cells: Vec<GuestNumaCell>,
    pages: MemoryPages,
}

impl GuestTopology {
    /// A number of virtual CPUs (1 to 4096) and an amount of memory (1 MiB to 1 PiB) without placement. Fails if a
    /// number is out of range.
    pub fn plain(vcpus: u32, memory_mib: u64) -> Result<Self, GuestSpecError> {
        if !(1..=MOST_VCPUS).contains(&vcpus) {
            return Err(GuestSpecError::Number {
                field: "topology.vcpus",
                found: vcpus.into(),
                expected: "a guest has 1 to 4096 virtual CPUs",
            });
        }
        if !(1..=MOST_MEMORY_MIB).contains(&memory_mib) {
            return Err(GuestSpecError::Number {
                field: "topology.memory_mib",
                found: memory_mib,
                expected: "a guest has 1 MiB to 1 PiB of memory",
            });
        }
        Ok(Self {
            vcpus,
            memory_mib,
            cpu_set: None,
            pinning: None,
            cells: Vec::new(),
            pages: MemoryPages::Small,
        })
    }

    /// Lets the virtual CPUs run on any of these host CPUs (Nova's `cpu_shared_set`). Fails if the set is empty, or the
    /// virtual CPUs are pinned individually.
    pub fn floating_on(mut self, cpus: CpuSet) -> Result<Self, GuestSpecError> {
        let field = "topology.cpu_set";
        if cpus.is_empty() {
            return Err(GuestSpecError::text(
                field,
                "",
                "at least one host CPU is needed",
            ));
        }
        if self.pinning.is_some() {
            return Err(GuestSpecError::Twice {
                field,
                what: "the placement of the virtual CPUs (they are pinned individually)".to_owned(),
            });
        }
        self.cpu_set = Some(cpus);
        Ok(self)
    }

    /// Pins each virtual CPU. Fails if the number of pins differs from the number of virtual CPUs, or these already
    /// have a shared set.
    pub fn pinned(mut self, pinning: CpuPinning) -> Result<Self, GuestSpecError> {
        let field = "topology.pinning";
        let pins = u32::try_from(pinning.pins().len()).unwrap_or(u32::MAX);
        if self.cpu_set.is_some() {
            return Err(GuestSpecError::Twice {
                field,
                what: "the placement of the virtual CPUs (they float over a set)".to_owned(),
            });
        }
        if pins < self.vcpus {
            return Err(GuestSpecError::LeavesOut {
                field,
                missing: (pins..self.vcpus).collect(),
            });
        }
        if pins > self.vcpus {
            return Err(GuestSpecError::NotThere {
                field,
                unknown: (self.vcpus..pins.min(MOST_VCPUS)).collect(),
            });
        }
        self.pinning = Some(pinning);
        Ok(self)
    }

    /// Distributes the guest over NUMA cells of the host. The first one is the guest's cell 0. Fails if there are no
    /// cells; they share virtual CPUs, omit some or name unknown ones; their memory does not add up to the guest's; or
    /// a cell's memory is not a multiple of its huge page size.
    pub fn on_cells(mut self, cells: Vec<GuestNumaCell>) -> Result<Self, GuestSpecError> {
        let field = "topology.cells";
        let mut taken = CpuSet::default();
        let mut memory = 0_u64;
        for cell in &cells {
            let shared = taken.intersection(&cell.vcpus);
            if !shared.is_empty() {
                return Err(GuestSpecError::Overlap { field, shared });
            }
            if cell.memory_mib == 0 {
                return Err(GuestSpecError::Number {
                    field: "topology.cells.memory_mib",
                    found: 0,
                    expected: "a cell needs memory",
                });
            }
            taken = taken.iter().chain(cell.vcpus.iter()).collect();
            memory = memory.saturating_add(cell.memory_mib);
        }
        let all = CpuSet::first(self.vcpus);
        let (missing, unknown) = (all.difference(&taken), taken.difference(&all));
        if !unknown.is_empty() {
            return Err(GuestSpecError::NotThere { field, unknown });
        }
        if !missing.is_empty() {
            return Err(GuestSpecError::LeavesOut { field, missing });
        }
        if memory != self.memory_mib {
            return Err(GuestSpecError::Sum {
                field: "topology.cells.memory_mib",
                found: memory,
                whole: self.memory_mib,
            });
        }
        self.cells = cells;
        self.in_whole_pages()
    }

    /// Backs the memory by pages of this size. Fails if the size is not a power of two from 64 KiB to 16 GiB, or the
    /// memory (of each cell) is not a multiple of it.
    pub fn with_pages(mut self, pages: MemoryPages) -> Result<Self, GuestSpecError> {
        if let MemoryPages::Huge { size_kib } = pages
            && !(size_kib.is_power_of_two() && (64..=16 << 20).contains(&size_kib))
        {
            return Err(GuestSpecError::Number {
                field: "topology.pages.size_kib",
                found: size_kib,
                expected: "a huge page has a power of two from 64 KiB to 16 GiB",
            });
        }
        self.pages = pages;
        self.in_whole_pages()
    }

    fn in_whole_pages(self) -> Result<Self, GuestSpecError> {
        let MemoryPages::Huge { size_kib } = self.pages else {
            return Ok(self);
        };
        let of_cells = self.cells.iter().map(|cell| cell.memory_mib);
        let odd = of_cells
            .chain([self.memory_mib])
            .find(|mib| !(mib * 1024).is_multiple_of(size_kib));
        match odd {
            Some(found) => Err(GuestSpecError::Number {
                field: "topology.memory_mib",
                found,
                expected: "it must be a multiple of the requested huge page size",
            }),
            None => Ok(self),
        }
    }

    /// How many virtual CPUs.
    #[must_use]
    pub fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// How much memory, in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        self.memory_mib
    }

    /// The shared host CPUs of the virtual CPUs; `None` for all, or if they are pinned.
    #[must_use]
    pub fn cpu_set(&self) -> Option<&CpuSet> {
        self.cpu_set.as_ref()
    }

    /// The placement of each virtual CPU, if they are pinned.
    #[must_use]
    pub fn pinning(&self) -> Option<&CpuPinning> {
        self.pinning.as_ref()
    }

    /// The guest's NUMA cells, cell 0 first; empty without NUMA placement.
    #[must_use]
    pub fn cells(&self) -> &[GuestNumaCell] {
        &self.cells
    }

    /// The pages its memory is of.
    #[must_use]
    pub fn pages(&self) -> MemoryPages {
        self.pages
    }
}

/// A host CPU set in a journal: its text.
#[derive(Serialize, Deserialize)]
struct CpuSetRecord(#[serde(with = "text")] CpuSet);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopologyRecord {
    vcpus: u32,
    memory_mib: u64,
    cpu_set: Option<CpuSetRecord>,
    pinning: Option<CpuPinning>,
    cells: Vec<GuestNumaCell>,
    pages: MemoryPages,
}

impl TryFrom<TopologyRecord> for GuestTopology {
    type Error = GuestSpecError;

    fn try_from(record: TopologyRecord) -> Result<Self, GuestSpecError> {
        let mut topology = Self::plain(record.vcpus, record.memory_mib)?;
        if let Some(CpuSetRecord(cpus)) = record.cpu_set {
            topology = topology.floating_on(cpus)?;
        }
        if let Some(pinning) = record.pinning {
            topology = topology.pinned(pinning)?;
        }
        if !record.cells.is_empty() {
            topology = topology.on_cells(record.cells)?;
        }
        topology.with_pages(record.pages)
    }
}

impl From<GuestTopology> for TopologyRecord {
    fn from(topology: GuestTopology) -> Self {
        Self {
            vcpus: topology.vcpus,
            memory_mib: topology.memory_mib,
            cpu_set: topology.cpu_set.map(CpuSetRecord),
            pinning: topology.pinning,
            cells: topology.cells,
            pages: topology.pages,
        }
    }
}
