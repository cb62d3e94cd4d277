//! Fits an instance on the host: chooses the NUMA cells, CPUs and pages for its flavor, next to the usage of other
//! instances ([`fit`]).
//!
//! Pure. Input: the flavor's extra specs, a view of the host, the usage, the cells of the instance's devices, and the scheduler's
//! limits. Output: a [`GuestTopology`] and the CPUs to reserve, or what each host cell lacks.
//!
//! ```text
//! page_sizes -> for each size: on_cells (HostCell::choose for each pair, then matching::assign) -> place
//! ```
//!
//! The extra specs mean what they mean in Nova. Nova's result depends on the order of its trials; this one does not: each guest cell
//! is checked against each host cell independently, and a bipartite matching decides. Two differences: all cells of an instance
//! have one page size, and the affinity policy `socket` is not supported.
//!
//! | module | what it does |
//! |---|---|
//! | [`HostUsage`] | the usage by other instances |
//! | `cell` | checks one guest cell against one host cell, and chooses CPUs |
//! | `cores` | chooses threads of cores |
//! | `matching` | assigns each guest cell to a different host cell |
//!
//! Caller: [`crate::create`], under the placement lock.

mod cell;
mod cores;
mod error;
mod matching;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{Affinity, EmulatorThreads, FlavorPlacement, WantedPages};
use berth_virt::guest_spec::{CpuPinning, GuestNumaCell, GuestTopology, MemoryPages, VcpuPin};
use berth_virt::{CpuSet, NodeView};

use crate::fit::cell::{CellChoice, HostCell};

pub use error::{CellConstraint, FitError, GuestCellRefusal};
pub use usage::{CellUse, HostUsage};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// The host cells that the instance may use; `None` for all.
    pub host_cells: Option<BTreeSet<u32>>,
    /// Maximum ratio of shared virtual CPUs to a cell's shared CPUs; `None` for no limit.
    pub cpu_ratio: Option<f64>,
    /// Maximum ratio of guests' memory to a cell's memory; `None` for no limit.
    pub ram_ratio: Option<f64>,
}

/// A device of the instance, with its NUMA affinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearDevice {
    /// The device, for messages.
    pub what: String,
    /// The device's host cell, if the host reports it.
    pub cell: Option<u32>,
    pub affinity: Affinity,
}

/// The placement of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFit {
    /// The virtual CPUs and memory, with their cells and pins.
    pub topology: GuestTopology,
    /// The host CPUs that no other instance may be pinned to: the pinned ones, the emulator's, and with `isolate` their
    /// sibling threads.
    pub reserved: CpuSet,
}

/// Chooses the placement of an instance.
pub fn fit(
    wanted: &FlavorPlacement,
    host: &NodeView,
    held: &HostUsage,
    near: &[NearDevice],
    limits: &Limits,
) -> Result<GuestFit, FitError> {
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

/// A placement without NUMA cells, on the host's shared CPUs.
fn floating(wanted: &FlavorPlacement, host: &NodeView) -> Result<GuestFit, FitError> {
    let topology = GuestTopology::plain(wanted.vcpus(), wanted.memory_mib())?;
    let shared = host.cpus.shared_online();
    let is_limited = host.cpus.shared.is_some() || host.cpus.dedicated.is_some();
    let topology = match (is_limited, shared.is_empty()) {
        (true, true) => return Err(FitError::NoSharedCpus),
        (true, false) => topology.floating_on(shared)?,
        (false, _) => topology,
    };
    Ok(GuestFit {
        topology,
        reserved: CpuSet::default(),
    })
}

/// The devices that require a cell, with these cells.
fn strict(near: &[NearDevice]) -> impl Iterator<Item = (&NearDevice, Option<u32>)> {
    near.iter()
        .filter_map(|device| match (device.affinity, device.cell) {
            (Affinity::Required, cell) => Some((device, cell)),
            (Affinity::Legacy, Some(cell)) => Some((device, Some(cell))),
            (Affinity::Legacy, None) | (Affinity::Preferred | Affinity::None, _) => None,
        })
}

/// The indices of host cells that the instance must use because of its devices.
fn required_cells(cells: &[HostCell], near: &[NearDevice]) -> Result<BTreeSet<usize>, FitError> {
    // Without NUMA cells, all devices are near.
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

/// The indices of the host cells in order of preference: near the instance's devices, away from other devices, with the
/// most room (Nova's default, which spreads).
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
        let memory = std::cmp::Reverse(cell.total_small_mib().saturating_sub(cell.used.small_mib));
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

/// The page sizes to try, in order. Only huge pages that a cell has are tried.
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
        WantedPages::Unspecified | WantedPages::Small => vec![MemoryPages::Small],
        WantedPages::Large => huge().collect(),
        WantedPages::Any => huge().chain([MemoryPages::Small]).collect(),
        WantedPages::Of { size_kib } => vec![MemoryPages::Huge { size_kib }],
    }
}

/// Assigns each guest cell to a host cell (by index), with pages of this size. Fails with the refusals of the guest
/// cells that fit on no host cell; these are empty if only the assignment failed.
fn on_cells(
    wanted: &FlavorPlacement,
    cells: &[HostCell],
    order: &[usize],
    required: &BTreeSet<usize>,
    pages: MemoryPages,
    limits: &Limits,
) -> Result<Vec<(usize, CellChoice)>, Vec<GuestCellRefusal>> {
    let (mut options, mut refusals) = (Vec::new(), Vec::new());
    for (number, guest) in wanted.cells().iter().enumerate() {
        let (mut fits, mut refused) = (Vec::new(), Vec::new());
        for place in order {
            match cells[*place].choose(wanted, number, guest, pages, limits) {
                Ok(choice) => fits.push((*place, choice)),
                Err(constraint) => refused.push(GuestCellRefusal {
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

/// Combines the choices into a placement.
fn placed(
    wanted: &FlavorPlacement,
    host: &NodeView,
    cells: &[HostCell],
    pages: MemoryPages,
    choices: Vec<(usize, CellChoice)>,
) -> Result<GuestFit, FitError> {
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
        EmulatorThreads::Share | EmulatorThreads::Unspecified => own().collect(),
    };
    let pinning = CpuPinning::new(pins.into_values().collect(), emulator)?;
    let mut topology =
        GuestTopology::plain(wanted.vcpus(), wanted.memory_mib())?.pinned(pinning)?;
    if !numa.is_empty() {
        topology = topology.on_cells(numa)?;
    }
    Ok(GuestFit {
        topology: topology.with_pages(pages)?,
        reserved: CpuSet::from_iter(reserved),
    })
}

#[cfg(test)]
mod tests;
