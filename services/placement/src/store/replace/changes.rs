//! Computes the rows to write so that consumers have their desired allocations; unchanged rows are not touched. Pure.
//!
//! A reshape names all allocations of each consumer but moves only one class. Writing only the difference makes it
//! fast, because each row of `allocations` is in three indexes.

use std::collections::BTreeMap;

use crate::ledger::{ProviderClass, ProviderId, RequestedAmount};

/// A row of `allocations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldRow {
    pub(super) id: i64,
    pub(super) slot: ProviderClass,
    pub(super) used: i64,
}

/// The difference between current and desired allocations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AllocationChanges<'a> {
    /// Rows that go to another provider with class and amount, by that provider.
    pub(super) moved: BTreeMap<ProviderId, Vec<i64>>,
    pub(super) dropped: Vec<i64>,
    /// New rows with their consumer.
    pub(super) added: Vec<(&'a str, RequestedAmount)>,
}

impl<'a> AllocationChanges<'a> {
    /// Adds the difference of one consumer.
    pub(super) fn add(&mut self, consumer: &'a str, held: &[HeldRow], wanted: &[RequestedAmount]) {
        let mut left = held.to_vec();
        let mut take = |fits: &dyn Fn(&HeldRow) -> bool| {
            let found = left.iter().position(fits)?;
            Some(left.swap_remove(found))
        };
        let mut unmet = Vec::new();
        for one in wanted {
            let same = |row: &HeldRow| row.slot == one.slot && row.used == one.amount;
            if take(&same).is_none() {
                unmet.push(*one);
            }
        }
        for one in unmet {
            let elsewhere = |row: &HeldRow| row.slot.1 == one.slot.1 && row.used == one.amount;
            match take(&elsewhere) {
                Some(row) => self.moved.entry(one.slot.0).or_default().push(row.id),
                None => self.added.push((consumer, one)),
            }
        }
        self.dropped.extend(left.iter().map(|row| row.id));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(rows: &[(ProviderClass, i64)]) -> Vec<HeldRow> {
        let rows = (1..).zip(rows);
        rows.map(|(id, (slot, used))| HeldRow {
            id,
            slot: *slot,
            used: *used,
        })
        .collect()
    }

    fn wanted(rows: &[(ProviderClass, i64)]) -> Vec<RequestedAmount> {
        let one = |(slot, amount): &(ProviderClass, i64)| RequestedAmount {
            slot: *slot,
            amount: *amount,
        };
        rows.iter().map(one).collect()
    }

    #[test]
    fn only_the_class_that_moves_is_written() {
        let mut changes = AllocationChanges::default();
        let before = [((1, 0), 4), ((1, 1), 512), ((1, 10), 1)];
        let after = [((1, 0), 4), ((1, 1), 512), ((7, 10), 1)];
        changes.add("a", &held(&before), &wanted(&after));
        let expected = AllocationChanges {
            moved: BTreeMap::from([(7, vec![3])]),
            ..AllocationChanges::default()
        };
        assert_eq!(changes, expected);
    }

    #[test]
    fn another_amount_is_a_row_less_and_a_row_more() {
        let mut changes = AllocationChanges::default();
        changes.add("a", &held(&[((1, 0), 4)]), &wanted(&[((1, 0), 5)]));
        assert_eq!(changes.dropped, [1]);
        assert_eq!(changes.added, [("a", wanted(&[((1, 0), 5)])[0])]);
    }

    fn some_rows() -> impl Strategy<Value = Vec<(ProviderClass, i64)>> {
        let rows = proptest::collection::btree_map((0..3_i64, 0..3_i64), 1..3_i64, 0..6);
        rows.prop_map(|rows| rows.into_iter().collect())
    }

    proptest! {
        #[test]
        fn what_is_written_makes_the_rows_that_are_wanted(before in some_rows(), after in some_rows()) {
            let (rows, goal) = (held(&before), wanted(&after));
            let mut changes = AllocationChanges::default();
            changes.add("a", &rows, &goal);
            let mut table: BTreeMap<i64, (ProviderClass, i64)> =
                rows.iter().map(|row| (row.id, (row.slot, row.used))).collect();
            for (provider, ids) in &changes.moved {
                for id in ids {
                    table.get_mut(id).unwrap().0.0 = *provider;
                }
            }
            for id in &changes.dropped {
                prop_assert!(table.remove(id).is_some());
            }
            let added = changes.added.iter().map(|(_, one)| (one.slot, one.amount));
            let mut found: Vec<(ProviderClass, i64)> = table.into_values().chain(added).collect();
            found.sort_unstable();
            prop_assert_eq!(found, after);
        }
    }
}
