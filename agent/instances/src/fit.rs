//! Where on the host a guest goes: the NUMA cells, CPUs and pages for what its flavor asks, beside what other guests hold.
//!
//! Pure: a flavor's extra specs, a view of the host, what is held, the cells of the guest's devices and the scheduler's limits
//! go in; a [`GuestTopology`] and the CPUs that are kept for it come out, or every host cell with what it lacks. What
//! the words mean is Nova's; where Nova's own fit depends on the order of its trials, this one does not: each guest cell
//! is asked of each host cell on its own, and a matching of the two decides.
//!
//! Differences that an operator may meet: all cells of a guest have pages of one size, and `socket` is no affinity here.
//!
//! | room | what it is |
//! |---|---|
//! | [`FlavorPlacement`] | what a flavor asks for |
//! | [`HostUsage`] | what other guests hold |
//! | `cell` | whether one guest cell fits one host cell, and its CPUs |
//! | `cores` | which threads of which cores |
//! | `matching` | each guest cell on a host cell of its own |
//!
//! Caller: `guest::build`, under its lock.

mod cell;
mod cores;
mod error;
mod flavor;
mod held;
mod matching;

use std::collections::{BTreeMap, BTreeSet};

use berth_virt::guest_spec::{GuestNumaCell, GuestTopology, MemoryPages, Pinning, VcpuPin};
use berth_virt::{CpuSet, NodeView};

use crate::fit::cell::{CellChoice, HostCell};

pub use error::{CellRefusal, Constraint, FitError};
pub use flavor::{
    Affinity, EmulatorThreads, FlavorError, FlavorPlacement, ThreadPolicy, WantedCell, WantedPages,
};
pub use held::{CellUse, HostUsage};

/// What the scheduler allows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// The host cells the guest may be on; none: all.
    pub host_cells: Option<BTreeSet<u32>>,
    /// How many shared virtual CPUs per shared CPU of a cell; none: no bound.
    pub cpu_ratio: Option<f64>,
    /// How much guests' memory per memory of a cell; none: no bound.
    pub ram_ratio: Option<f64>,
}

/// A device of the guest, as far as cells are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearDevice {
    /// The device, in words.
    pub what: String,
    /// The host cell it hangs on, where the host says.
    pub cell: Option<u32>,
    /// How near it must be.
    pub affinity: Affinity,
}

/// Where a guest goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its virtual CPUs and memory, placed.
    pub topology: GuestTopology,
    /// The host CPUs that no other guest may be pinned to: its own, its emulator's, and those that share a core with them
    /// where it is to be alone there.
    pub reserved: CpuSet,
}

/// Finds the guest's place.
pub fn fit(
    wanted: &FlavorPlacement,
    host: &NodeView,
    held: &HostUsage,
    near: &[NearDevice],
    limits: &Limits,
) -> Result<Placed, FitError> {
    if wanted.cells().is_empty() {
        return floating(wanted, host);
    }
    let cells = HostCell::all(host, held);
    if cells.len() < wanted.cells().len() {
        return Err(FitError::TooFewCells {
            wanted: wanted.cells().len(),
            found: cells.len(),
        });
    }
    let required = required_cells(&cells, near)?;
    let order = preference(wanted, host, &cells, near);
    let sizes = page_sizes(wanted.pages(), &cells);
    if sizes.is_empty() {
        return Err(FitError::NoHugePages);
    }
    let mut refusals = Vec::new();
    for pages in sizes {
        match on_cells(wanted, &cells, &order, &required, pages, limits) {
            Ok(choices) => return placed(wanted, host, &cells, pages, choices),
            Err(refused) => refusals.extend(refused),
        }
    }
    Err(match refusals.is_empty() {
        false => FitError::Refused { refusals },
        true if required.is_empty() => FitError::Together,
        true => FitError::Devices {
            devices: strict(near)
                .map(|(device, _)| device.what.clone())
                .collect(),
        },
    })
}

/// A guest without NUMA placement, on the host's shared CPUs.
fn floating(wanted: &FlavorPlacement, host: &NodeView) -> Result<Placed, FitError> {
    let topology = GuestTopology::plain(wanted.vcpus(), wanted.memory_mib())?;
    let shared = host.cpus.shared_online();
    let is_limited = host.cpus.shared.is_some() || host.cpus.dedicated.is_some();
    let topology = match (is_limited, shared.is_empty()) {
        (true, true) => return Err(FitError::NoSharedCpus),
        (true, false) => topology.floating_on(shared)?,
        (false, _) => topology,
    };
    Ok(Placed {
        topology,
        reserved: CpuSet::default(),
    })
}

/// The devices that bind the guest to their cells, and those cells.
fn strict(near: &[NearDevice]) -> impl Iterator<Item = (&NearDevice, Option<u32>)> {
    near.iter()
        .filter_map(|device| match (device.affinity, device.cell) {
            (Affinity::Required, cell) => Some((device, cell)),
            (Affinity::Legacy, Some(cell)) => Some((device, Some(cell))),
            (Affinity::Legacy, None) | (Affinity::Preferred | Affinity::None, _) => None,
        })
}

/// The host cells, by their place, on each of which the guest must have a cell.
fn required_cells(cells: &[HostCell], near: &[NearDevice]) -> Result<BTreeSet<usize>, FitError> {
    // A host that shows no cells has everything near.
    if cells.iter().all(|cell| cell.id.is_none()) {
        return Ok(BTreeSet::new());
    }
    let place = |(device, cell): (&NearDevice, Option<u32>)| {
        let place = cell.and_then(|id| cells.iter().position(|cell| cell.id == Some(id)));
        place.ok_or_else(|| FitError::DeviceNowhere {
            device: device.what.clone(),
        })
    };
    strict(near).map(place).collect()
}

/// The host cells, those to be taken first at the front: near the guest's devices; away from devices it has not asked for;
/// with the most room (Nova's default, which spreads).
fn preference(
    wanted: &FlavorPlacement,
    host: &NodeView,
    cells: &[HostCell],
    near: &[NearDevice],
) -> Vec<usize> {
    let mut on_cell: BTreeMap<u32, usize> = BTreeMap::new();
    let numa = host.devices.iter().map(|device| device.numa_node);
    for cell in numa
        .chain(host.gpus.iter().map(|gpu| gpu.numa_node))
        .flatten()
    {
        *on_cell.entry(cell).or_default() += 1;
    }
    let wanted_near = |cell: &HostCell| {
        let here =
            |device: &&NearDevice| device.affinity != Affinity::None && device.cell == cell.id;
        cell.id.map_or(0, |_| near.iter().filter(here).count())
    };
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|place| {
        let cell = &cells[*place];
        let others = match near.is_empty() {
            true => cell
                .id
                .and_then(|id| on_cell.get(&id))
                .copied()
                .unwrap_or(0),
            false => 0,
        };
        let room = match wanted.dedicated().is_empty() {
            true => cell.used.shared_vcpus.cast_signed(),
            false => -i64::try_from(cell.free_dedicated()).unwrap_or(i64::MAX),
        };
        let memory = std::cmp::Reverse(cell.small_mib().saturating_sub(cell.used.small_mib));
        (
            std::cmp::Reverse(wanted_near(cell)),
            others,
            room,
            memory,
            cell.id,
        )
    });
    order
}

/// The page sizes to be tried, in their order; huge ones are those that some cell has.
fn page_sizes(wanted: WantedPages, cells: &[HostCell]) -> Vec<MemoryPages> {
    let sizes: BTreeSet<u64> = cells
        .iter()
        .flat_map(|cell| cell.huge.keys().copied())
        .collect();
    let huge = || {
        sizes
            .iter()
            .rev()
            .map(|size| MemoryPages::Huge { size_kib: *size })
    };
    match wanted {
        WantedPages::Unsaid | WantedPages::Small => vec![MemoryPages::Small],
        WantedPages::Large => huge().collect(),
        WantedPages::Any => huge().chain([MemoryPages::Small]).collect(),
        WantedPages::Of { size_kib } => vec![MemoryPages::Huge { size_kib }],
    }
}

/// Each guest cell on a host cell with pages of this size, by the host cell's place; or what stands in the way of the guest
/// cells that fit nowhere (nothing, where each fits somewhere and only not all at once).
fn on_cells(
    wanted: &FlavorPlacement,
    cells: &[HostCell],
    order: &[usize],
    required: &BTreeSet<usize>,
    pages: MemoryPages,
    limits: &Limits,
) -> Result<Vec<(usize, CellChoice)>, Vec<CellRefusal>> {
    let (mut options, mut refusals) = (Vec::new(), Vec::new());
    for (number, guest) in wanted.cells().iter().enumerate() {
        let (mut fits, mut refused) = (Vec::new(), Vec::new());
        for place in order {
            match cells[*place].choose(wanted, number, guest, pages, limits) {
                Ok(choice) => fits.push((*place, choice)),
                Err(constraint) => refused.push(CellRefusal {
                    guest_cell: number,
                    host_cell: cells[*place].id,
                    constraint,
                }),
            }
        }
        if fits.is_empty() {
            refusals.extend(refused);
        }
        options.push(fits);
    }
    let places: Vec<Vec<usize>> = options
        .iter()
        .map(|fits| fits.iter().map(|(place, _)| *place).collect())
        .collect();
    let assigned = matching::assign(&places, required).ok_or(refusals)?;
    let chosen = assigned
        .into_iter()
        .zip(options)
        .filter_map(|(place, fits)| fits.into_iter().find(|(option, _)| *option == place));
    Ok(chosen.collect())
}

/// The choices put together.
fn placed(
    wanted: &FlavorPlacement,
    host: &NodeView,
    cells: &[HostCell],
    pages: MemoryPages,
    choices: Vec<(usize, CellChoice)>,
) -> Result<Placed, FitError> {
    let mut pins: BTreeMap<u32, VcpuPin> = BTreeMap::new();
    let (mut reserved, mut emulator) = (BTreeSet::new(), BTreeSet::new());
    let mut numa = Vec::new();
    for ((place, choice), guest) in choices.into_iter().zip(wanted.cells()) {
        numa.extend(cells[place].id.map(|host_cell| GuestNumaCell {
            vcpus: guest.vcpus.clone(),
            memory_mib: guest.memory_mib,
            host_cell,
        }));
        pins.extend(choice.pins);
        reserved.extend(choice.reserved);
        emulator.extend(choice.emulator);
    }
    let own = || {
        pins.values().flat_map(|pin| match pin {
            VcpuPin::Dedicated(cpu) => CpuSet::from_iter([*cpu]).iter().collect::<Vec<_>>(),
            VcpuPin::Shared(cpus) => cpus.iter().collect(),
        })
    };
    let shared = host.cpus.shared_online();
    let emulator = match wanted.emulator() {
        EmulatorThreads::Isolate => CpuSet::from_iter(emulator),
        EmulatorThreads::Share if !shared.is_empty() => shared,
        EmulatorThreads::Share | EmulatorThreads::Unsaid => own().collect(),
    };
    let pinning = Pinning::new(pins.into_values().collect(), emulator)?;
    let mut topology =
        GuestTopology::plain(wanted.vcpus(), wanted.memory_mib())?.pinned(pinning)?;
    if !numa.is_empty() {
        topology = topology.on_cells(numa)?;
    }
    Ok(Placed {
        topology: topology.with_pages(pages)?,
        reserved: CpuSet::from_iter(reserved),
    })
}

#[cfg(test)]
mod tests;
