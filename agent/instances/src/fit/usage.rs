//! The usage of the host by its instances: [`HostUsage`].
//!
//! The usage of Berth's instances is known exactly. For other guests, only the hypervisor's data counts: their memory on a cell, and
//! their virtual CPUs there unless pinned. Their pins are unknown, and all their pages count as small ones.

use std::collections::{BTreeMap, BTreeSet};

use berth_virt::guest_spec::{GuestTopology, MemoryPages, VcpuPin};
use berth_virt::{CpuSet, GuestCpuPolicy, GuestView};

/// The usage of one host cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CellUse {
    /// Virtual CPUs on the cell's shared CPUs, of instances with cells.
    pub shared_vcpus: u64,
    /// Memory of small pages in MiB, of instances with cells.
    pub small_mib: u64,
    /// Huge pages by size in KiB.
    pub huge: BTreeMap<u64, u64>,
}

impl CellUse {
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        let huge = self.huge.iter().map(|(size, count)| size * count / 1024);
        self.small_mib.saturating_add(huge.sum::<u64>())
    }
}

/// The usage of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostUsage {
    /// CPUs that no other instance may be pinned to.
    reserved: BTreeSet<u32>,
    /// By host cell; the key is `None` for a host without NUMA cells.
    cells: BTreeMap<Option<u32>, CellUse>,
}

impl HostUsage {
    /// Adds an instance with these reserved CPUs.
    pub fn add(&mut self, topology: &GuestTopology, reserved: &CpuSet) {
        self.reserved.extend(reserved.iter());
        let shared = |vcpus: &CpuSet| match topology.pinning() {
            Some(pinning) => {
                let pin = |vcpu| {
                    pinning
                        .pins()
                        .get(usize::try_from(vcpu).unwrap_or(usize::MAX))
                };
                let shared = |vcpu: &u32| matches!(pin(*vcpu), Some(VcpuPin::Shared(_)));
                vcpus.iter().filter(shared).count()
            }
            None => vcpus.len(),
        };
        if topology.cells().is_empty() && topology.pinning().is_some() {
            let vcpus = CpuSet::first(topology.vcpus());
            self.add_cell(
                None,
                shared(&vcpus),
                topology.memory_mib(),
                topology.pages(),
            );
        }
        for cell in topology.cells() {
            let vcpus = shared(&cell.vcpus);
            self.add_cell(
                Some(cell.host_cell),
                vcpus,
                cell.memory_mib,
                topology.pages(),
            );
        }
    }

    /// Adds a guest that Berth did not create.
    pub fn add_foreign(&mut self, guest: &GuestView) {
        for share in &guest.cells {
            let used = self.cells.entry(Some(share.host_cell)).or_default();
            if guest.cpu_policy == GuestCpuPolicy::Shared {
                used.shared_vcpus = used.shared_vcpus.saturating_add(share.vcpus);
            }
            used.small_mib = used.small_mib.saturating_add(share.memory_mib);
        }
    }

    fn add_cell(&mut self, cell: Option<u32>, shared: usize, memory_mib: u64, pages: MemoryPages) {
        let used = self.cells.entry(cell).or_default();
        used.shared_vcpus += shared as u64;
        match pages {
            MemoryPages::Small => used.small_mib += memory_mib,
            MemoryPages::Huge { size_kib } => {
                *used.huge.entry(size_kib).or_default() += memory_mib * 1024 / size_kib;
            }
        }
    }

    /// The CPUs that no other instance may be pinned to.
    #[must_use]
    pub fn reserved(&self) -> CpuSet {
        self.reserved.iter().copied().collect()
    }

    #[must_use]
    pub fn on(&self, cell: Option<u32>) -> CellUse {
        self.cells.get(&cell).cloned().unwrap_or_default()
    }
}
