//! [`HostUsage`]: the CPUs and memory that instances use on each NUMA cell of the host.
//!
//! As in Nova, only an instance that is bound to cells or pinned to CPUs counts. Any other instance runs on all shared CPUs
//! of the host, so its usage belongs to no cell. A host without NUMA cells counts as one cell with the key `None`.
//!
//! Berth knows the cells and pins of its own instances. Of a foreign guest it knows from the hypervisor how much of the guest is
//! on each cell, and whether the guest is pinned, but not to which CPUs. All pages of a foreign guest count as small pages.

use std::collections::{BTreeMap, BTreeSet};

use berth_virt::guest_spec::{GuestTopology, MemoryPages, VcpuPin};
use berth_virt::{CpuSet, GuestCpuPolicy, GuestView};

/// What instances use of one host cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CellUse {
    /// Virtual CPUs on the cell's shared CPUs.
    pub shared_vcpus: u64,
    /// Memory of small pages in MiB.
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
    /// CPUs of pinned instances. No further instance may be pinned to them.
    reserved: BTreeSet<u32>,
    /// By host cell; the key is `None` for a host without NUMA cells.
    cells: BTreeMap<Option<u32>, CellUse>,
}

impl HostUsage {
    /// Adds an instance of Berth with this topology and these reserved CPUs.
    pub fn add(&mut self, topology: &GuestTopology, reserved: &CpuSet) {
        self.reserved.extend(reserved.iter());
        let pages = topology.pages();
        if topology.cells().is_empty() && topology.pinning().is_some() {
            // The host has no NUMA cells.
            let shared_vcpus = count_shared(topology, &CpuSet::first(topology.vcpus()));
            self.add_cell(None, shared_vcpus, topology.memory_mib(), pages);
        }
        for cell in topology.cells() {
            let shared_vcpus = count_shared(topology, &cell.vcpus);
            self.add_cell(Some(cell.host_cell), shared_vcpus, cell.memory_mib, pages);
        }
    }

    /// Adds a guest that Berth did not create.
    pub fn add_foreign(&mut self, guest: &GuestView) {
        for guest_cell in &guest.cells {
            let used = self.cells.entry(Some(guest_cell.host_cell)).or_default();
            if guest.cpu_policy == GuestCpuPolicy::Shared {
                used.shared_vcpus = used.shared_vcpus.saturating_add(guest_cell.vcpus);
            }
            used.small_mib = used.small_mib.saturating_add(guest_cell.memory_mib);
        }
    }

    fn add_cell(
        &mut self,
        host_cell: Option<u32>,
        shared_vcpus: usize,
        memory_mib: u64,
        pages: MemoryPages,
    ) {
        let used = self.cells.entry(host_cell).or_default();
        used.shared_vcpus += shared_vcpus as u64;
        match pages {
            MemoryPages::Small => used.small_mib += memory_mib,
            MemoryPages::Huge { size_kib } => {
                *used.huge.entry(size_kib).or_default() += memory_mib * 1024 / size_kib;
            }
        }
    }

    /// The CPUs of pinned instances. No further instance may be pinned to them.
    #[must_use]
    pub fn reserved(&self) -> CpuSet {
        self.reserved.iter().copied().collect()
    }

    /// The usage of a host cell; `None` is the only cell of a host without NUMA cells.
    #[must_use]
    pub fn of_cell(&self, host_cell: Option<u32>) -> CellUse {
        self.cells.get(&host_cell).cloned().unwrap_or_default()
    }
}

/// The number of these virtual CPUs that run on shared CPUs.
fn count_shared(topology: &GuestTopology, vcpus: &CpuSet) -> usize {
    let Some(pinning) = topology.pinning() else {
        return vcpus.len();
    };
    let pin = |vcpu: u32| pinning.pins().get(usize::try_from(vcpu).ok()?);
    let is_shared = |vcpu: &u32| matches!(pin(*vcpu), Some(VcpuPin::Shared(_)));
    vcpus.iter().filter(is_shared).count()
}
