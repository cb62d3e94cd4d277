//! Checks whether a guest cell fits on a host cell, and chooses its CPUs.

use std::collections::{BTreeMap, BTreeSet};

use berth_virt::guest_spec::{MemoryPages, VcpuPin};
use berth_virt::{CpuSet, HostNumaCell, NodeView};

use crate::fit::Limits;
use crate::fit::cores::{self, Core, CpuPick, CpuShortage};
use crate::fit::error::CellConstraint;
use crate::fit::usage::{CellUse, HostUsage};
use berth_model::{EmulatorThreads, FlavorPlacement, WantedCell, WantedPages};

/// What a guest may still get on a [`HostNumaCell`]; the whole host if it has no NUMA cells.
#[derive(Debug, Clone)]
pub(super) struct HostCell {
    /// The cell's ID; `None` for a host without NUMA cells.
    pub(super) id: Option<u32>,
    /// The online shared CPUs.
    shared: CpuSet,
    /// The cores, with their free dedicated threads.
    cores: Vec<Core>,
    memory_mib: u64,
    /// Number of huge pages by size in KiB, free or not.
    pub(super) huge: BTreeMap<u64, u64>,
    pub(super) used: CellUse,
}

/// The CPUs of a host cell for a guest cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CellChoice {
    pub(super) pins: Vec<(u32, VcpuPin)>,
    /// CPUs that no other instance may be pinned to.
    pub(super) reserved: Vec<u32>,
    pub(super) emulator: Vec<u32>,
}

impl HostCell {
    /// The host's cells. A host without NUMA cells counts as one cell.
    pub(super) fn all(host: &NodeView, held: &HostUsage) -> Vec<Self> {
        if host.cells.is_empty() {
            let whole = HostNumaCell::new(0, host.cpus.online.clone(), host.memory_mib);
            return vec![Self::of(None, &whole, host, held)];
        }
        let cells = host.cells.iter();
        cells
            .map(|cell| Self::of(Some(cell.id), cell, host, held))
            .collect()
    }

    fn of(id: Option<u32>, cell: &HostNumaCell, host: &NodeView, held: &HostUsage) -> Self {
        let online = cell.cpus.intersection(&host.cpus.online);
        let free = host.cpus.dedicated_online().difference(&held.reserved());
        let mut listed = BTreeSet::new();
        let mut cores: Vec<Core> = Vec::new();
        let singles = online.iter().map(|cpu| CpuSet::from_iter([cpu]));
        for threads in cell.siblings.iter().cloned().chain(singles) {
            let threads = threads.intersection(&online);
            // A CPU belongs to the first core that lists it.
            let threads: Vec<u32> = threads.iter().filter(|cpu| listed.insert(*cpu)).collect();
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
            used: held.on(id),
        }
    }

    /// Number of free dedicated CPUs.
    pub(super) fn free_dedicated(&self) -> usize {
        self.cores.iter().map(|core| core.free.len()).sum()
    }

    /// Memory of small pages in MiB, free or not.
    pub(super) fn small_mib(&self) -> u64 {
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
            return Err(CellConstraint::LeftOut);
        }
        let dedicated: Vec<u32> = guest
            .vcpus
            .intersection(wanted.dedicated())
            .iter()
            .collect();
        let shared: Vec<u32> = guest.vcpus.difference(wanted.dedicated()).iter().collect();
        self.memory(wanted, guest.memory_mib, pages, limits)?;
        self.share(shared.len(), limits)?;
        let isolated = wanted.emulator() == EmulatorThreads::Isolate && number == 0;
        let spare = usize::from(isolated);
        let picked = self.dedicate(wanted, dedicated.len(), spare)?;
        let on_shared = |vcpu| (vcpu, VcpuPin::Shared(self.shared.clone()));
        let pins = picked.pins.iter().map(|cpu| VcpuPin::Dedicated(*cpu));
        let pins = dedicated.into_iter().zip(pins);
        Ok(CellChoice {
            pins: pins.chain(shared.into_iter().map(on_shared)).collect(),
            reserved: picked.reserved,
            emulator: picked.spare,
        })
    }

    fn dedicate(
        &self,
        wanted: &FlavorPlacement,
        count: usize,
        spare: usize,
    ) -> Result<CpuPick, CellConstraint> {
        let picked = cores::pick(&self.cores, count, spare, wanted.threads());
        let needed = count + spare;
        picked.map_err(|short| match short {
            CpuShortage::Cpus(free) => CellConstraint::Dedicated { needed, free },
            CpuShortage::WholeCores(free) => CellConstraint::WholeCores { needed, free },
            CpuShortage::Siblings(free) => CellConstraint::Siblings {
                needed: count,
                free,
            },
        })
    }

    fn share(&self, needed: usize, limits: &Limits) -> Result<(), CellConstraint> {
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

    fn memory(
        &self,
        wanted: &FlavorPlacement,
        needed: u64,
        pages: MemoryPages,
        limits: &Limits,
    ) -> Result<(), CellConstraint> {
        match pages {
            MemoryPages::Small => {
                // Memory may be overcommitted up to the limit's ratio only for instances that share CPUs.
                let is_own =
                    !wanted.dedicated().is_empty() || wanted.pages() != WantedPages::Unspecified;
                let used = if is_own { self.used.small_mib } else { 0 };
                let free = self.small_mib().saturating_sub(used);
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
