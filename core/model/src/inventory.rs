//! Inventory: the amount of one resource class that a provider has.

use std::fmt;

/// The maximum of total, reserved, min_unit, max_unit and step_size in Placement's schema: 2^31 - 1.
pub(crate) const MAX_INT: u32 = i32::MAX as u32;

/// How many times each unit may be allocated: a positive number in single precision, like Placement's column. A ratio that is read back
/// therefore equals the ratio that was sent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct AllocationRatio(f32);

impl AllocationRatio {
    /// Each unit may be allocated once.
    pub const ONE: AllocationRatio = AllocationRatio(1.0);

    /// Checks the range. Fails if the ratio is not a finite number above 0 and at most
    /// 3.4e38 (Placement's single precision).
    pub fn new(ratio: f64) -> Result<Self, InventoryError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "Placement's column is single precision"
        )]
        let single = ratio as f32;
        if single.is_finite() && single > 0.0 {
            Ok(Self(single))
        } else {
            Err(InventoryError::Ratio {
                ratio: ratio.to_string(),
            })
        }
    }

    /// The ratio as it is sent: the shortest decimal that parses to the same single-precision number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        // Through decimal text: 1.1f32 as f64 is 1.10000002384…, which no operator wrote.
        self.0.to_string().parse().unwrap_or(f64::from(self.0))
    }
}

impl Eq for AllocationRatio {}

impl fmt::Display for AllocationRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Placement would refuse the inventory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// A number is out of range.
    #[error("{field} is {value}; {range} is allowed")]
    Range {
        /// The field, by Placement's name.
        field: &'static str,
        /// The value that was given.
        value: i64,
        /// The allowed range, as text.
        range: &'static str,
    },
    /// The allocation ratio is out of range.
    #[error("allocation_ratio is {ratio}; a number above 0 and at most 3.4e38 is allowed")]
    Ratio {
        /// The ratio that was given, as text.
        ratio: String,
    },
}

/// The amount of one resource class that a provider has (openstack-placement, inventories). All amounts are in the unit of the class:
/// MiB for MEMORY_MB, GiB for DISK_GB, pieces for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// The total, 1 to 2^31 - 1.
    pub total: u32,
    /// Not available to consumers, 0 to total.
    pub reserved: u32,
    /// The minimum of a single allocation, at least 1.
    pub min_unit: u32,
    /// The maximum of a single allocation, at least 1.
    pub max_unit: u32,
    /// An allocation must be a multiple of this; at least 1.
    pub step_size: u32,
    /// How many times `total - reserved` may be allocated.
    pub allocation_ratio: AllocationRatio,
}

impl Inventory {
    /// `total` units, each allocated once at most, none reserved; one allocation may take all of them. Fails if `total`
    /// is 0 or above 2^31 - 1 (a provider without any has no inventory).
    pub fn of(total: u64) -> Result<Self, InventoryError> {
        let narrow = u32::try_from(total)
            .ok()
            .filter(|t| (1..=MAX_INT).contains(t));
        let Some(total) = narrow else {
            return Err(InventoryError::Range {
                field: "total",
                value: i64::try_from(total).unwrap_or(i64::MAX),
                range: "1 to 2147483647",
            });
        };
        Ok(Self {
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: AllocationRatio::ONE,
        })
    }

    /// Held inventory: `used` units without a new home. All of it is reserved, so nothing more can be claimed.
    /// `max_unit` above the total marks it ([`Inventory::is_held`]), and lets each consumer keep its allocation. Fails
    /// if `used` is 0 or above 2^31 - 2.
    pub fn holding(used: u64) -> Result<Self, InventoryError> {
        let inventory = Self::of(used)?;
        if inventory.total == MAX_INT {
            return Err(InventoryError::Range {
                field: "total",
                value: i64::from(inventory.total),
                range: "1 to 2147483646",
            });
        }
        Ok(Self {
            reserved: inventory.total,
            max_unit: MAX_INT,
            ..inventory
        })
    }

    /// The same inventory with this `reserved`, at most the total.
    #[must_use]
    pub fn reserving(self, reserved: u32) -> Self {
        Self {
            reserved: reserved.min(self.total),
            ..self
        }
    }

    /// The same inventory with another allocation ratio.
    #[must_use]
    pub fn with_ratio(self, allocation_ratio: AllocationRatio) -> Self {
        Self {
            allocation_ratio,
            ..self
        }
    }

    /// The same inventory with the fields that an operator can set through Placement's API taken from
    /// `current`: `reserved` and `allocation_ratio`.
    #[must_use]
    pub fn with_operator_settings(self, current: Option<&Inventory>) -> Self {
        match current {
            Some(current) if !current.is_held() => {
                let ratio = current.allocation_ratio;
                self.reserving(current.reserved).with_ratio(ratio)
            }
            _ => self,
        }
    }

    /// The capacity for all consumers together, as Placement computes it: `(total - reserved) x allocation_ratio`, rounded down.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let offered = f64::from(self.total.saturating_sub(self.reserved));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, and saturating is right for absurd ratios"
        )]
        let capacity = (offered * self.allocation_ratio.as_f64()) as u64;
        capacity
    }

    /// Whether the inventory is held: all of it is reserved, and `max_unit` is above the total. An operator who reserves everything leaves
    /// `max_unit` as the driver reported it, which is never above the total, so that reservation is not taken for a hold.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.total == self.reserved && self.max_unit > self.total
    }

    /// Whether one consumer may have this amount, by min_unit, max_unit and step_size. Placement checks the sum of each consumer.
    pub(crate) fn accepts_amount(&self, amount: u64) -> bool {
        amount >= u64::from(self.min_unit)
            && amount <= u64::from(self.max_unit)
            && amount.is_multiple_of(u64::from(self.step_size.max(1)))
    }
}

impl fmt::Display for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.total)?;
        if self.reserved > 0 {
            write!(f, " reserved {}", self.reserved)?;
        }
        if self.allocation_ratio != AllocationRatio::ONE {
            write!(f, " ratio {}", self.allocation_ratio)?;
        }
        let plain = (self.min_unit, self.step_size) == (1, 1) && self.max_unit == self.total;
        if self.is_held() {
            f.write_str(" held")?;
        } else if !plain {
            write!(
                f,
                " units {}..{} step {}",
                self.min_unit, self.max_unit, self.step_size
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_what_is_not_reserved_times_the_ratio() {
        let ratio = AllocationRatio::new(1.5).unwrap();
        let inventory = Inventory::of(7).unwrap().reserving(2).with_ratio(ratio);
        assert_eq!(inventory.capacity(), 7);
        assert_eq!(Inventory::holding(3).unwrap().capacity(), 0);
    }

    #[test]
    fn a_ratio_reads_back_as_it_was_written() {
        for ratio in [1.1, 4.0, 16.0, 0.3, 1.333_333_4] {
            assert!((AllocationRatio::new(ratio).unwrap().as_f64() - ratio).abs() < 1e-9);
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(AllocationRatio::new(bad).is_err());
        }
    }

    #[test]
    fn totals_out_of_range_are_refused() {
        assert!(Inventory::of(0).is_err());
        assert!(Inventory::of(1 << 31).is_err());
        assert_eq!(Inventory::of((1 << 31) - 1).unwrap().total, MAX_INT);
        assert!(Inventory::holding(0).is_err());
        assert!(Inventory::holding((1 << 31) - 1).is_err());
    }

    #[test]
    fn what_an_operator_set_survives_but_a_hold_does_not_spread() {
        let set = Inventory::of(8).unwrap().reserving(2);
        assert_eq!(
            Inventory::of(4)
                .unwrap()
                .with_operator_settings(Some(&set))
                .reserved,
            2
        );
        let held = Inventory::holding(8).unwrap();
        assert_eq!(
            Inventory::of(4)
                .unwrap()
                .with_operator_settings(Some(&held))
                .reserved,
            0
        );
    }

    #[test]
    fn an_operator_may_reserve_everything_without_that_being_a_hold() {
        let closed = Inventory::of(8).unwrap().reserving(8);
        assert!(!closed.is_held() && Inventory::holding(8).unwrap().is_held());
        assert_eq!(
            Inventory::of(8)
                .unwrap()
                .with_operator_settings(Some(&closed)),
            closed
        );
        let shrunk = Inventory::of(4)
            .unwrap()
            .with_operator_settings(Some(&closed));
        assert_eq!((shrunk.reserved, shrunk.is_held()), (4, false));
    }

    #[test]
    fn an_amount_must_fit_the_units() {
        let pairs = Inventory {
            min_unit: 2,
            max_unit: 6,
            step_size: 2,
            ..Inventory::of(8).unwrap()
        };
        let taken: Vec<u64> = (0..10).filter(|n| pairs.accepts_amount(*n)).collect();
        assert_eq!(taken, [2, 4, 6]);
        assert!(Inventory::holding(3).unwrap().accepts_amount(3));
    }

    #[test]
    fn the_text_names_only_what_is_unusual() {
        let ratio = AllocationRatio::new(4.0).unwrap();
        let odd = Inventory {
            step_size: 2,
            ..Inventory::of(8).unwrap()
        };
        for (inventory, text) in [
            (Inventory::of(8).unwrap(), "8"),
            (
                Inventory::of(8).unwrap().reserving(1).with_ratio(ratio),
                "8 reserved 1 ratio 4.0",
            ),
            (Inventory::of(8).unwrap().reserving(8), "8 reserved 8"),
            (Inventory::holding(2).unwrap(), "2 reserved 2 held"),
            (odd, "8 units 1..8 step 2"),
        ] {
            assert_eq!(inventory.to_string(), text);
        }
    }
}
