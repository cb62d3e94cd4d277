//! Checks the NUMA cells of a report.

use std::collections::BTreeSet;

use berth_scheduler::host_state::CellSet;
use berth_wire::BodyError;
use berth_wire::host_state::{NumaCell, NumaPages};

use super::bounds::{amount, between, count, few, name};
use super::devices::LAST_CELL;

/// Maximum number of page sizes of a cell.
const PAGE_SIZES: usize = 32;
/// Maximum number of physical networks of a cell.
const NETWORKS: usize = 1_024;

pub(super) fn check(cells: &[NumaCell]) -> Result<(), BodyError> {
    few("numa_topology", cells.len(), CellSet::LIMIT)?;
    let mut ids = BTreeSet::new();
    for (place, cell) in cells.iter().enumerate() {
        let place = format!("numa_topology[{place}]");
        one(cell).map_err(|error| error.under(&place))?;
        if !ids.insert(cell.id) {
            let reason = format!("it is {}, the ID of another cell", cell.id);
            return Err(BodyError::field(format!("{place}.id"), reason));
        }
    }
    Ok(())
}

fn one(cell: &NumaCell) -> Result<(), BodyError> {
    between("id", cell.id, 0, LAST_CELL)?;
    amount("memory", cell.memory)?;
    amount("memory_usage", cell.memory_usage)?;
    count("cpu_usage", cell.cpu_usage)?;
    if let Some(socket) = cell.socket {
        between("socket", socket, 0, LAST_CELL)?;
    }
    few("mempages", cell.mempages.len(), PAGE_SIZES)?;
    let mut sizes = BTreeSet::new();
    for (place, pages) in cell.mempages.iter().enumerate() {
        let place = format!("mempages[{place}]");
        of_size(pages).map_err(|error| error.under(&place))?;
        if !sizes.insert(pages.size_kb) {
            let reason = "another entry has this page size";
            return Err(BodyError::field(format!("{place}.size_kb"), reason));
        }
    }
    few("physnets", cell.physnets.len(), NETWORKS)?;
    cell.physnets
        .iter()
        .try_for_each(|network| name("physnets", network))
}

fn of_size(pages: &NumaPages) -> Result<(), BodyError> {
    between("size_kb", pages.size_kb, 1, 1 << 30)?;
    amount("total", pages.total)?;
    amount("used", pages.used)?;
    amount("reserved", pages.reserved)
}
