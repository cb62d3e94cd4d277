//! Affinity of cells to the network cards of the instance's networks.

use super::NumaReason;
use crate::host_state::{CellSet, NumaCell, NumaTopology};
use crate::request::NetworkMetadata;

/// A network that the host has at some cells must be at one of the chosen cells; other networks do not matter.
pub(super) fn check(
    networks: &NetworkMetadata,
    host: &NumaTopology,
    chosen: CellSet,
) -> Result<(), NumaReason> {
    for physnet in &networks.physnets {
        if !is_near(host, chosen, |cell| cell.physnets.contains(physnet)) {
            return Err(NumaReason::Physnet {
                physnet: physnet.clone(),
                at: ids(host.cells.iter().filter(|it| it.physnets.contains(physnet))),
                cells: ids(chosen.of(host)),
            });
        }
    }
    if networks.tunneled && !is_near(host, chosen, |cell| cell.tunneled) {
        return Err(NumaReason::Tunnel {
            at: ids(host.cells.iter().filter(|it| it.tunneled)),
            cells: ids(chosen.of(host)),
        });
    }
    Ok(())
}

fn is_near(host: &NumaTopology, chosen: CellSet, has: impl Fn(&NumaCell) -> bool) -> bool {
    chosen.of(host).any(&has) || !host.cells.iter().any(&has)
}

fn ids<'a>(cells: impl Iterator<Item = &'a NumaCell>) -> Vec<i64> {
    cells.map(|cell| cell.id).collect()
}
