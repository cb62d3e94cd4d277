//! Reservations of an operator on inventory that moves. They are reported and not moved: Berth cannot know which of several new providers
//! should have the reservation, and a reservation on a full provider would leave its allocations without a home.

use std::collections::BTreeSet;
use std::fmt;

use super::PendingReshape;
use crate::{Move, ProviderName, ProviderTree, ResourceClass};

/// Units that were reserved before the move and are not reserved after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LostReservation {
    provider: ProviderName,
    class: ResourceClass,
    units: u64,
}

impl fmt::Display for LostReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, class, provider) = (self.units, &self.class, &self.provider);
        write!(
            f,
            "{units} {class} reserved on {provider} are not reserved where they go"
        )
    }
}

/// The reservations that are lost, one entry for each move.
pub(super) fn unreserved(pending: &PendingReshape, tree: &ProviderTree) -> Vec<LostReservation> {
    let current = pending.current();
    let moves = pending.desired().moves.iter();
    let left = moves.filter_map(|m| {
        let inventory = current.inventory(m.provider, &m.class)?;
        let classes = m.to.iter().chain([&m.class]).collect();
        let fewer = reserved(current, &classes).saturating_sub(reserved(tree, &classes));
        let units = fewer.min(u64::from(inventory.reserved));
        (units > 0 && !inventory.is_held()).then(|| unreserved_by(current, m, units))
    });
    left.collect()
}

fn unreserved_by(current: &ProviderTree, m: &Move, units: u64) -> LostReservation {
    let provider = current.get(m.provider).unwrap_or(current.root());
    LostReservation {
        provider: provider.name.clone(),
        class: m.class.clone(),
        units,
    }
}

/// The reserved amount of these classes in the own tree, without held inventory.
fn reserved(tree: &ProviderTree, classes: &BTreeSet<&ResourceClass>) -> u64 {
    tree.own()
        .iter()
        .flat_map(|provider| &provider.inventories)
        .filter(|(class, inventory)| classes.contains(class) && !inventory.is_held())
        .map(|(_, inventory)| u64::from(inventory.reserved))
        .sum()
}
