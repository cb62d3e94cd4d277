//! Computes how large a machine must be for its guests.

use berth_fake::MachineGuest;
use berth_virt::{GuestCell, HostNumaCell};

/// What all guests need, by where they are.
pub(crate) struct Needs {
    /// CPUs of all together.
    pub(crate) vcpus: u32,
    /// MiB on each cell, and of guests that are on none.
    placed: [u64; 2],
    free: u64,
}

impl Needs {
    pub(crate) fn of(guests: &[MachineGuest]) -> Self {
        let vcpus: u64 = guests.iter().map(|guest| guest.seen.vcpus).sum();
        let on = |cell| {
            let cells = guests.iter().flat_map(|guest| &guest.seen.cells);
            let there = cells.filter(|share: &&GuestCell| share.host_cell == cell);
            there.map(|share| share.memory_mib).sum()
        };
        let free = guests.iter().filter(|guest| guest.seen.cells.is_empty());
        Self {
            // And a few for those who are no guests.
            vcpus: u32::try_from(vcpus).expect("few CPUs") + 8,
            placed: [on(0), on(1)],
            free: free.map(|guest| guest.seen.memory_mib).sum(),
        }
    }

    /// The first cell has room for half of the guests that are on none.
    pub(crate) fn cells(&self) -> Vec<HostNumaCell> {
        let cpus = [
            format!("0-{}", self.vcpus - 1),
            format!("{}-{}", self.vcpus, 2 * self.vcpus - 1),
        ];
        let rooms = [self.free / 2, self.free + 4096];
        (0..2u32)
            .zip(cpus)
            .zip(self.placed.iter().zip(rooms))
            .map(|((id, cpus), (placed, room))| {
                HostNumaCell::new(id, cpus.parse().expect("a CPU set"), placed + room)
            })
            .collect()
    }

    pub(crate) fn memory_mib(&self) -> u64 {
        self.cells().iter().map(|cell| cell.memory_mib).sum()
    }
}
