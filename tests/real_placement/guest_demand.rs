//! [`GuestDemand`]: the CPUs and the memory that a fake machine needs for its guests.

use berth_fake::MachineGuest;
use berth_virt::{GuestCell, HostNumaCell};

/// The total demand of the guests.
pub(crate) struct GuestDemand {
    /// Virtual CPUs of all guests, and 8 spare ones.
    pub(crate) vcpus: u32,
    /// Memory of guests with a NUMA topology, on each of the two host cells, in MiB.
    numa_guests_mib: [u64; 2],
    /// Memory of guests without a NUMA topology, in MiB.
    other_guests_mib: u64,
}

impl GuestDemand {
    pub(crate) fn of(guests: &[MachineGuest]) -> Self {
        let vcpus: u64 = guests.iter().map(|guest| guest.seen.vcpus).sum();
        let memory_on_cell = |cell| {
            let cells = guests.iter().flat_map(|guest| &guest.seen.cells);
            let there = cells.filter(|share: &&GuestCell| share.host_cell == cell);
            there.map(|share| share.memory_mib).sum()
        };
        let other_guests = guests.iter().filter(|guest| guest.seen.cells.is_empty());
        Self {
            // 8 spare CPUs for the test's consumers that are not instances.
            vcpus: u32::try_from(vcpus).expect("few CPUs") + 8,
            numa_guests_mib: [memory_on_cell(0), memory_on_cell(1)],
            other_guests_mib: other_guests.map(|guest| guest.seen.memory_mib).sum(),
        }
    }

    /// Two host cells, which have different sizes, as real hosts may have. Each has memory for its NUMA guests. For the other
    /// guests, the first cell has half of the memory they need; the second has all of it and 4 GiB more.
    pub(crate) fn cells(&self) -> Vec<HostNumaCell> {
        let cpus = [
            format!("0-{}", self.vcpus - 1),
            format!("{}-{}", self.vcpus, 2 * self.vcpus - 1),
        ];
        let other_mib = [self.other_guests_mib / 2, self.other_guests_mib + 4096];
        (0..2u32)
            .zip(cpus)
            .zip(self.numa_guests_mib.iter().zip(other_mib))
            .map(|((id, cpus), (numa, other))| {
                HostNumaCell::new(id, cpus.parse().expect("a CPU set"), numa + other)
            })
            .collect()
    }

    pub(crate) fn memory_mib(&self) -> u64 {
        self.cells().iter().map(|cell| cell.memory_mib).sum()
    }
}
