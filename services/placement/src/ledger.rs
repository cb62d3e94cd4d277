//! Decides whether consumers may get their requested allocations. Pure.
//!
//! Claims (PUT and POST /allocations) and the reshape call it with the state that was read inside the writing transaction.
//! It knows neither SQL nor HTTP.
//!
//! A claim may not raise a provider above its capacity, but may keep or lower an existing excess. A reshape is checked for all
//! consumers of every affected provider, named or not. For each class one of these must hold: usage fits the new inventory; the
//! class is held (total = reserved = usage, and usage did not grow); or it was over capacity before and is not worse.

use std::collections::{BTreeMap, BTreeSet};

use crate::inventory::InventoryRecord;

/// A provider's row id.
pub(crate) type ProviderId = i64;
/// A resource class's row id.
pub(crate) type ClassId = i64;
/// One class of one provider.
pub(crate) type ProviderClass = (ProviderId, ClassId);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestedAmount {
    pub(crate) slot: ProviderClass,
    /// How much, at least 1.
    pub(crate) amount: i64,
}

/// Everything the decision needs.
#[derive(Debug, Default)]
pub(crate) struct AllocationLedger {
    /// Inventories of all touched providers as they are.
    pub(crate) inventories: BTreeMap<ProviderClass, InventoryRecord>,
    /// Inventories as they are to be, for the providers that a reshape sets; empty in a claim.
    pub(crate) reshaped: BTreeMap<ProviderId, BTreeMap<ClassId, InventoryRecord>>,
    /// The current usage by all consumers on all affected providers.
    pub(crate) usage: BTreeMap<ProviderClass, i64>,
    /// What the named consumers hold now and will release.
    pub(crate) released: BTreeMap<ProviderClass, i64>,
    /// What the named consumers request, in the order of the request.
    pub(crate) wanted: Vec<RequestedAmount>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LedgerRefusal {
    /// The provider has none of the wanted classes.
    NoInventoryAtAll(ProviderId),
    /// The provider does not have this class.
    NoInventory(ProviderClass),
    /// The amount violates min_unit, max_unit or step_size.
    Constraints(ProviderClass),
    /// The amount exceeds the capacity.
    Capacity(ProviderClass),
    /// The reshape takes away classes that are in use.
    InUse(ProviderId, Vec<ClassId>),
}

impl AllocationLedger {
    /// Accepts the request or returns the first reason against it.
    pub(crate) fn check(&self) -> Result<(), LedgerRefusal> {
        self.check_there_is_inventory()?;
        self.check_wanted()?;
        self.check_dropped_classes()?;
        self.check_reshaped_providers()
    }

    /// Applies an accepted request, so that the next one is checked against the result.
    pub(crate) fn settle(&mut self) {
        for (slot, amount) in self.added() {
            let used = self.usage.entry(slot).or_default();
            *used = used.saturating_add(amount);
        }
        for (slot, amount) in std::mem::take(&mut self.released) {
            // Nothing was read if nothing is requested.
            if let Some(used) = self.usage.get_mut(&slot) {
                *used -= amount;
            }
        }
        self.wanted.clear();
    }

    fn check_there_is_inventory(&self) -> Result<(), LedgerRefusal> {
        let classes: BTreeSet<ClassId> = self.wanted.iter().map(|wanted| wanted.slot.1).collect();
        let providers: BTreeSet<ProviderId> =
            self.wanted.iter().map(|wanted| wanted.slot.0).collect();
        for provider in providers {
            let has = |class: &ClassId| self.before_or_after((provider, *class)).is_some();
            if !classes.iter().any(has) {
                return Err(LedgerRefusal::NoInventoryAtAll(provider));
            }
        }
        Ok(())
    }

    fn check_wanted(&self) -> Result<(), LedgerRefusal> {
        let added = self.added();
        for wanted in &self.wanted {
            let slot = wanted.slot;
            let inventory = self
                .before_or_after(slot)
                .ok_or(LedgerRefusal::NoInventory(slot))?;
            if !inventory.admits(wanted.amount) {
                return Err(LedgerRefusal::Constraints(slot));
            }
            // A class that the reshape removes is reported as in use, below.
            if let Some(after) = self.after(slot)
                && !self.may_stand(slot, after, self.usage_after(slot, &added))
            {
                return Err(LedgerRefusal::Capacity(slot));
            }
        }
        Ok(())
    }

    fn check_dropped_classes(&self) -> Result<(), LedgerRefusal> {
        let added = self.added();
        for (provider, inventories) in &self.reshaped {
            let dropped: Vec<ClassId> = self
                .slots_of(*provider, &added)
                .filter(|slot| self.usage_after(*slot, &added) > 0)
                .map(|(_, class)| class)
                .filter(|class| !inventories.contains_key(class))
                .collect();
            if !dropped.is_empty() {
                return Err(LedgerRefusal::InUse(*provider, dropped));
            }
        }
        Ok(())
    }

    fn check_reshaped_providers(&self) -> Result<(), LedgerRefusal> {
        let added = self.added();
        for (provider, inventories) in &self.reshaped {
            for (class, inventory) in inventories {
                let slot = (*provider, *class);
                if !self.may_stand(slot, inventory, self.usage_after(slot, &added)) {
                    return Err(LedgerRefusal::Capacity(slot));
                }
            }
        }
        Ok(())
    }

    fn may_stand(&self, slot: ProviderClass, after: &InventoryRecord, usage: i64) -> bool {
        let before = self.usage.get(&slot).copied().unwrap_or_default();
        if fits(usage, after) {
            return true;
        }
        if usage > before {
            return false;
        }
        if !self.reshaped.contains_key(&slot.0) || after.holds_exactly(usage) {
            return true;
        }
        let excess_before = self
            .inventories
            .get(&slot)
            .map_or(0.0, |inventory| excess(before, inventory));
        excess_before > 0.0 && excess(usage, after) <= excess_before
    }

    fn after(&self, slot: ProviderClass) -> Option<&InventoryRecord> {
        match self.reshaped.get(&slot.0) {
            Some(inventories) => inventories.get(&slot.1),
            None => self.inventories.get(&slot),
        }
    }

    fn before_or_after(&self, slot: ProviderClass) -> Option<&InventoryRecord> {
        self.after(slot).or_else(|| self.inventories.get(&slot))
    }

    fn added(&self) -> BTreeMap<ProviderClass, i64> {
        let mut added = BTreeMap::new();
        for wanted in &self.wanted {
            let sum: &mut i64 = added.entry(wanted.slot).or_default();
            *sum = sum.saturating_add(wanted.amount);
        }
        added
    }

    fn slots_of<'a>(
        &'a self,
        provider: ProviderId,
        added: &'a BTreeMap<ProviderClass, i64>,
    ) -> impl Iterator<Item = ProviderClass> + 'a {
        let of = move |slot: &&ProviderClass| slot.0 == provider;
        let slots: BTreeSet<ProviderClass> = self
            .usage
            .keys()
            .filter(of)
            .chain(added.keys().filter(of))
            .copied()
            .collect();
        slots.into_iter()
    }

    fn usage_after(&self, slot: ProviderClass, added: &BTreeMap<ProviderClass, i64>) -> i64 {
        let of = |map: &BTreeMap<ProviderClass, i64>| map.get(&slot).copied().unwrap_or_default();
        (of(&self.usage) - of(&self.released)).saturating_add(of(added))
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "amounts near 2^53 exceed any capacity the schema can hold"
)]
fn excess(usage: i64, inventory: &InventoryRecord) -> f64 {
    usage as f64 - inventory.capacity()
}

fn fits(usage: i64, inventory: &InventoryRecord) -> bool {
    usage == 0 || excess(usage, inventory) <= 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const P: ProviderId = 1;
    const C: ClassId = 10;

    fn inventory(total: i64, reserved: i64) -> InventoryRecord {
        InventoryRecord {
            total,
            reserved,
            min_unit: 1,
            max_unit: 1_000,
            step_size: 1,
            allocation_ratio: 1.0,
        }
    }

    /// One class of one provider: current inventory, new inventory, usage, released, requested.
    fn ledger(
        before: InventoryRecord,
        after: Option<InventoryRecord>,
        usage: i64,
        released: i64,
        wanted: &[i64],
    ) -> AllocationLedger {
        let slot = (P, C);
        let reshaped = after.map(|after| (P, BTreeMap::from([(C, after)])));
        AllocationLedger {
            inventories: BTreeMap::from([(slot, before)]),
            reshaped: reshaped.into_iter().collect(),
            usage: BTreeMap::from([(slot, usage)]),
            released: BTreeMap::from([(slot, released)]),
            wanted: wanted
                .iter()
                .map(|amount| RequestedAmount {
                    slot,
                    amount: *amount,
                })
                .collect(),
        }
    }

    #[test]
    fn a_claim_fits_or_is_refused() {
        for (usage, released, wanted, passes) in [
            (0, 0, &[8][..], true),
            (0, 0, &[9], false),
            (0, 0, &[4, 4], true),
            (0, 0, &[4, 5], false),
            (8, 0, &[1], false),
            (8, 8, &[8], true),
            (12, 2, &[2], true),
            (12, 2, &[1], true),
            (12, 2, &[3], false),
        ] {
            let ledger = ledger(inventory(8, 0), None, usage, released, wanted);
            assert_eq!(
                ledger.check().is_ok(),
                passes,
                "{usage} {released} {wanted:?}"
            );
        }
    }

    #[test]
    fn a_reshape_is_judged_for_users_it_does_not_name() {
        for (before, after, usage, passes) in [
            ((8, 0), (8, 0), 8, true),
            ((8, 0), (7, 0), 8, false),
            ((8, 0), (8, 1), 8, false),
            ((8, 0), (2, 2), 2, true),
            ((8, 0), (3, 3), 2, false),
            ((8, 0), (2, 1), 2, false),
            ((8, 0), (5, 5), 0, true),
            ((6, 0), (6, 0), 8, true),
            ((6, 0), (5, 0), 8, false),
            ((6, 0), (7, 0), 8, true),
        ] {
            let [before, after] = [before, after].map(|(total, held)| inventory(total, held));
            let ledger = ledger(before, Some(after), usage, 0, &[]);
            assert_eq!(
                ledger.check().is_ok(),
                passes,
                "{before:?} {after:?} {usage}"
            );
        }
    }

    #[test]
    fn a_held_class_takes_nothing_new() {
        let held = inventory(2, 2);
        let grown = ledger(inventory(8, 0), Some(held), 1, 0, &[1]);
        assert_eq!(grown.check(), Err(LedgerRefusal::Capacity((P, C))));
    }

    #[test]
    fn a_dropped_class_must_be_unused() {
        let mut ledger = ledger(inventory(8, 0), None, 2, 2, &[]);
        ledger.reshaped = BTreeMap::from([(P, BTreeMap::new())]);
        assert_eq!(ledger.check(), Ok(()));
        ledger.released.clear();
        assert_eq!(ledger.check(), Err(LedgerRefusal::InUse(P, vec![C])));
    }

    proptest! {
        #[test]
        fn what_passes_fits_or_is_not_worse(
            (total, reserved) in (1..40_i64).prop_flat_map(|total| (Just(total), 0..=total)),
            (usage, released) in (0..60_i64).prop_flat_map(|usage| (Just(usage), 0..=usage)),
            wanted in proptest::collection::vec(1..20_i64, 0..4),
        ) {
            let inventory = inventory(total, reserved);
            let ledger = ledger(inventory, None, usage, released, &wanted);
            let after = usage - released + wanted.iter().sum::<i64>();
            let fits = after <= total - reserved;
            let lawful = wanted.is_empty() || fits || after <= usage;
            prop_assert_eq!(ledger.check().is_ok(), lawful);
        }

        #[test]
        fn a_reshape_never_passes_with_usage_lost_from_sight(
            before in 1..40_i64,
            after in 1..40_i64,
            reserved in 0..40_i64,
            usage in 0..60_i64,
        ) {
            let after = inventory(after, reserved.min(after));
            let ledger = ledger(inventory(before, 0), Some(after), usage, 0, &[]);
            if ledger.check().is_ok() {
                let fits = usage <= after.total - after.reserved;
                let held = after.holds_exactly(usage);
                let was_over = usage > before && after.total - after.reserved >= before;
                prop_assert!(usage == 0 || fits || held || was_over);
            }
        }
    }
}
