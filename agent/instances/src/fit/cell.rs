//! [`HostCell`]: checks whether one NUMA cell of a guest fits on one NUMA cell of the host, and chooses its CPUs.

use std::collections::{BTreeMap, BTreeSet};

use berth_virt::guest_spec::{MemoryPages, VcpuPin};
use berth_virt::{CpuSet, HostNumaCell, NodeView};

use crate::fit::Limits;
use crate::fit::cores::{self, Core, CpuPick, CpuShortage};
use crate::fit::error::CellConstraint;
use crate::fit::usage::{CellUse, HostUsage};
use berth_model::{EmulatorThreads, FlavorPlacement, WantedCell, WantedPages};

/// A NUMA cell of the host with its capacity and what instances use of it. A host without NUMA cells is one cell.
#[derive(Debug, Clone)]
pub(super) struct HostCell {
    /// The cell's ID; `None` for a host without NUMA cells.
    pub(super) id: Option<u32>,
    /// The online shared CPUs.
    shared: CpuSet,
    /// The cores, each with the dedicated threads that no instance is pinned to.
    cores: Vec<Core>,
    /// All memory, free or not.
    memory_mib: u64,
    /// The number of all huge pages, free or not, by size in KiB.
    pub(super) huge: BTreeMap<u64, u64>,
    pub(super) used: CellUse,
}

/// The CPUs of a host cell for a guest cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CellChoice {
    pub(super) pins: Vec<(u32, VcpuPin)>,
    /// CPUs that no other instance may be pinned to: those in `pins` and `emulator`, and with the thread policy `isolate`
    /// the other threads of their cores.
    pub(super) reserved: Vec<u32>,
    /// The CPU of the emulator threads, if it is isolated.
    pub(super) emulator: Vec<u32>,
}

impl HostCell {
    /// The host's cells. A host without NUMA cells counts as one cell.
    pub(super) fn all(host: &NodeView, usage: &HostUsage) -> Vec<Self> {
        if host.cells.is_empty() {
            // `of` does not read the ID of this cell.
            let whole = HostNumaCell::new(0, host.cpus.online.clone(), host.memory_mib);
            return vec![Self::of(None, &whole, host, usage)];
        }
        let cells = host.cells.iter();
        cells
            .map(|cell| Self::of(Some(cell.id), cell, host, usage))
            .collect()
    }

    fn of(id: Option<u32>, cell: &HostNumaCell, host: &NodeView, usage: &HostUsage) -> Self {
        let online = cell.cpus.intersection(&host.cpus.online);
        let free = host.cpus.dedicated_online().difference(&usage.reserved());
        let mut assigned = BTreeSet::new();
        let mut cores: Vec<Core> = Vec::new();
        // A CPU belongs to the first core that lists it, or is a core of its own if none does.
        let single_threads = online.iter().map(|cpu| CpuSet::from_iter([cpu]));
        for threads in cell.siblings.iter().cloned().chain(single_threads) {
            let threads = threads.intersection(&online);
            let threads: Vec<u32> = threads.iter().filter(|cpu| assigned.insert(*cpu)).collect();
            if !threads.is_empty() {
                let free = threads
                    .iter()
                    .copied()
                    .filter(|cpu| free.contains(*cpu))
                    .collect();
                cores.push(Core { threads, free });
            }
        }
        Self {
            id,
            shared: cell.cpus.intersection(&host.cpus.shared_online()),
            cores,
            memory_mib: cell.memory_mib,
            huge: cell.huge_pages.clone(),
            used: usage.of_cell(id),
        }
    }

    /// Number of free dedicated CPUs.
    pub(super) fn free_dedicated(&self) -> usize {
        self.cores.iter().map(|core| core.free.len()).sum()
    }

    /// All memory outside huge pages in MiB, free or not.
    pub(super) fn total_small_mib(&self) -> u64 {
        let huge = self
            .huge
            .iter()
            .map(|(size, count)| size.saturating_mul(*count) / 1024);
        self.memory_mib
            .saturating_sub(huge.fold(0, u64::saturating_add))
    }

    /// Chooses the CPUs for guest cell `number`.
    pub(super) fn choose(
        &self,
        wanted: &FlavorPlacement,
        number: usize,
        guest: &WantedCell,
        pages: MemoryPages,
        limits: &Limits,
    ) -> Result<CellChoice, CellConstraint> {
        let allowed = limits.host_cells.as_ref();
        if let (Some(allowed), Some(id)) = (allowed, self.id)
            && !allowed.contains(&id)
        {
            return Err(CellConstraint::NotAllowed);
        }
        let dedicated: Vec<u32> = guest
            .vcpus
            .intersection(wanted.dedicated())
            .iter()
            .collect();
        let shared: Vec<u32> = guest.vcpus.difference(wanted.dedicated()).iter().collect();
        self.check_memory(wanted, guest.memory_mib, pages, limits)?;
        self.check_shared_cpus(shared.len(), limits)?;
        // As in Nova, isolated emulator threads get a CPU near guest cell 0.
        let is_isolated = wanted.emulator() == EmulatorThreads::Isolate && number == 0;
        let emulator_cpus = usize::from(is_isolated);
        let picked = self.pick_dedicated_cpus(wanted, dedicated.len(), emulator_cpus)?;
        let on_shared = |vcpu| (vcpu, VcpuPin::Shared(self.shared.clone()));
        let pins = picked.pins.iter().map(|cpu| VcpuPin::Dedicated(*cpu));
        let pins = dedicated.into_iter().zip(pins);
        Ok(CellChoice {
            pins: pins.chain(shared.into_iter().map(on_shared)).collect(),
            reserved: picked.reserved,
            emulator: picked.emulator,
        })
    }

    /// Picks `count` CPUs for virtual CPUs, and `emulator_cpus` more.
    fn pick_dedicated_cpus(
        &self,
        wanted: &FlavorPlacement,
        count: usize,
        emulator_cpus: usize,
    ) -> Result<CpuPick, CellConstraint> {
        let picked = cores::pick(&self.cores, count, emulator_cpus, wanted.threads());
        let needed = count + emulator_cpus;
        picked.map_err(|short| match short {
            CpuShortage::Cpus(free) => CellConstraint::Dedicated { needed, free },
            CpuShortage::WholeCores(free) => CellConstraint::WholeCores { needed, free },
            // The CPU of the emulator threads need not share a core.
            CpuShortage::Siblings(free) => CellConstraint::Siblings {
                needed: count,
                free,
            },
        })
    }

    /// Checks the number of shared CPUs, and the limit of virtual CPUs per shared CPU.
    fn check_shared_cpus(&self, needed: usize, limits: &Limits) -> Result<(), CellConstraint> {
        let found = self.shared.len();
        if found < needed {
            return Err(CellConstraint::Shared { needed, found });
        }
        let used = self.used.shared_vcpus;
        match limits.cpu_ratio {
            Some(ratio) if needed > 0 && (used + needed as u64) as f64 > ratio * found as f64 => {
                Err(CellConstraint::CpuRatio {
                    used,
                    cpus: found,
                    needed,
                    ratio,
                })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the pages for `needed` MiB are free, and the limit of guests' memory per host memory.
    fn check_memory(
        &self,
        wanted: &FlavorPlacement,
        needed: u64,
        pages: MemoryPages,
        limits: &Limits,
    ) -> Result<(), CellConstraint> {
        match pages {
            MemoryPages::Small => {
                // An instance with dedicated CPUs or a page size (`hw:mem_page_size`) needs free memory. For others, the
                // ratio below limits the overcommit.
                let may_overcommit =
                    wanted.dedicated().is_empty() && wanted.pages() == WantedPages::Unspecified;
                let used = if may_overcommit {
                    0
                } else {
                    self.used.small_mib
                };
                let free = self.total_small_mib().saturating_sub(used);
                if free < needed {
                    return Err(CellConstraint::Memory { needed, free });
                }
            }
            MemoryPages::Huge { size_kib } => {
                let kib = needed.saturating_mul(1024);
                if !kib.is_multiple_of(size_kib) {
                    return Err(CellConstraint::Uneven {
                        memory_mib: needed,
                        size_kib,
                    });
                }
                let used = self.used.huge.get(&size_kib).copied().unwrap_or(0);
                let total = self.huge.get(&size_kib).copied().unwrap_or(0);
                let (needed, free) = (kib / size_kib, total.saturating_sub(used));
                if free < needed {
                    return Err(CellConstraint::Pages {
                        size_kib,
                        needed,
                        free,
                    });
                }
            }
        }
        let (used, memory) = (self.used.memory_mib(), self.memory_mib);
        match limits.ram_ratio {
            Some(ratio) if (used + needed) as f64 > ratio * memory as f64 => {
                Err(CellConstraint::RamRatio {
                    used,
                    memory,
                    needed,
                    ratio,
                })
            }
            _ => Ok(()),
        }
    }
}
