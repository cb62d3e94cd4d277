//! An inventory record and the checks that need no other data.

use berth_http::Microversion;
use serde::{Deserialize, Serialize};

use crate::microversions;

/// The largest integer of the schema's columns.
pub(crate) const MAX_INT: i64 = 2_147_483_647;

/// The inventory of one resource class of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct InventoryRecord {
    pub(crate) total: i64,
    #[serde(default)]
    pub(crate) reserved: i64,
    #[serde(default = "one")]
    pub(crate) min_unit: i64,
    #[serde(default = "max_int")]
    pub(crate) max_unit: i64,
    /// Allocations must be a multiple of it.
    #[serde(default = "one")]
    pub(crate) step_size: i64,
    /// The overcommit factor of the capacity.
    #[serde(default = "ratio")]
    pub(crate) allocation_ratio: f64,
}

fn one() -> i64 {
    1
}

fn max_int() -> i64 {
    MAX_INT
}

fn ratio() -> f64 {
    1.0
}

impl InventoryRecord {
    /// The capacity in units.
    #[allow(
        clippy::cast_precision_loss,
        reason = "both numbers are below 2^31, which a double holds exactly"
    )]
    pub(crate) fn capacity(&self) -> f64 {
        (self.total - self.reserved) as f64 * self.allocation_ratio
    }

    /// Whether `amount` fits min_unit, max_unit and step_size.
    pub(crate) fn admits(&self, amount: i64) -> bool {
        (self.min_unit..=self.max_unit).contains(&amount) && amount % self.step_size.max(1) == 0
    }

    /// Whether the inventory is held: total = reserved = usage.
    pub(crate) fn holds_exactly(&self, usage: i64) -> bool {
        self.total == self.reserved && self.reserved == usage
    }
}

/// Why an inventory is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReservedError {
    #[error("The reserved value is greater than or equal to total.")]
    NotBelowTotal,
    #[error("The reserved value is greater than total.")]
    AboveTotal,
}

/// Checks `reserved` by the rule of the version.
pub(crate) fn check_reserved(
    version: Microversion,
    inventory: &InventoryRecord,
) -> Result<(), ReservedError> {
    let capacity = inventory.capacity().trunc();
    if version.has(microversions::RESERVED_MAY_EQUAL_TOTAL) {
        if capacity < 0.0 {
            return Err(ReservedError::AboveTotal);
        }
    } else if capacity <= 0.0 {
        return Err(ReservedError::NotBelowTotal);
    }
    Ok(())
}
