//! [`GuestDemand`]: the CPUs and the memory that a fake machine needs for its guests.

use berth_fake::MachineGuest;
use berth_virt::{GuestCell, HostNumaCell};

/// The total demand of the guests.
pub(crate) struct GuestDemand {
    /// Virtual CPUs of all guests, and 8 spare ones.
    pub(crate) vcpus: u32,
    /// Memory of guests with cells, on each of the two host cells, in MiB.
    pinned_mib: [u64; 2],
    /// Memory of guests without cells, in MiB.
    unpinned_mib: u64,
}

impl GuestDemand {
    pub(crate) fn of(guests: &[MachineGuest]) -> Self {
        let vcpus: u64 = guests.iter().map(|guest| guest.seen.vcpus).sum();
        let memory_on_cell = |cell| {
            let cells = guests.iter().flat_map(|guest| &guest.seen.cells);
            let there = cells.filter(|share: &&GuestCell| share.host_cell == cell);
            there.map(|share| share.memory_mib).sum()
        };
        let unpinned = guests.iter().filter(|guest| guest.seen.cells.is_empty());
        Self {
            // 8 spare CPUs for consumers that are no guests.
            vcpus: u32::try_from(vcpus).expect("few CPUs") + 8,
            pinned_mib: [memory_on_cell(0), memory_on_cell(1)],
            unpinned_mib: unpinned.map(|guest| guest.seen.memory_mib).sum(),
        }
    }

    /// Two host cells. In addition to its pinned guests, the first has memory for half of the unpinned demand. The second has
    /// memory for all of it and 4 GiB more.
    pub(crate) fn cells(&self) -> Vec<HostNumaCell> {
        let cpus = [
            format!("0-{}", self.vcpus - 1),
            format!("{}-{}", self.vcpus, 2 * self.vcpus - 1),
        ];
        let rooms = [self.unpinned_mib / 2, self.unpinned_mib + 4096];
        (0..2u32)
            .zip(cpus)
            .zip(self.pinned_mib.iter().zip(rooms))
            .map(|((id, cpus), (pinned, room))| {
                HostNumaCell::new(id, cpus.parse().expect("a CPU set"), pinned + room)
            })
            .collect()
    }

    pub(crate) fn memory_mib(&self) -> u64 {
        self.cells().iter().map(|cell| cell.memory_mib).sum()
    }
}
