//! Checks the PCI device pools of a report.

use berth_wire::BodyError;
use berth_wire::host_state::PciPool;

use super::bounds::{between, count, few, name, short};

/// Maximum number of pools of a node.
const POOLS: usize = 4_096;
/// Maximum number of tags of a pool.
const TAGS: usize = 64;
/// Maximum ID of a NUMA cell.
pub(super) const LAST_CELL: i64 = 65_535;

pub(super) fn check(pools: &[PciPool]) -> Result<(), BodyError> {
    few("pci_device_pools", pools.len(), POOLS)?;
    for (place, pool) in pools.iter().enumerate() {
        one(pool).map_err(|error| error.under(format!("pci_device_pools[{place}]")))?;
    }
    Ok(())
}

fn one(pool: &PciPool) -> Result<(), BodyError> {
    four_digits("vendor_id", &pool.vendor_id)?;
    four_digits("product_id", &pool.product_id)?;
    if let Some(cell) = pool.numa_node {
        between("numa_node", cell, 0, LAST_CELL)?;
    }
    count("count", pool.count)?;
    few("tags", pool.tags.len(), TAGS)?;
    for (key, value) in &pool.tags {
        name("tags", key)?;
        short(&format!("tags.{key}"), value)?;
    }
    Ok(())
}

fn four_digits(field: &str, it: &str) -> Result<(), BodyError> {
    match it.len() == 4 && it.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(()),
        false => {
            let reason = format!("it is {it:?}; it must be four hexadecimal digits");
            Err(BodyError::field(field, reason))
        }
    }
}
