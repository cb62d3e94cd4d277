//! S1: usage stays within capacity.

use crate::{InvariantId, SystemSnapshot, Violation};
use berth_model::{ProviderUuid, ResourceClass, Usages};

/// Usage is within capacity, or the inventory is held at exactly the usage, or the usage has not grown since the run began. In the last
/// case it was over capacity before, or its inventory shrank, which Placement accepts.
pub(crate) fn s1(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let placement = &snapshot.placement;
    let began = snapshot.histories.began.as_ref();
    let before = began.map(|began| began.usages()).unwrap_or_default();
    placement
        .usages()
        .into_iter()
        .filter(|((provider, class), used)| {
            let inventory = placement.inventory(*provider, class);
            let fits = inventory.is_some_and(|inventory| *used <= inventory.capacity());
            let held = inventory.is_some_and(|i| i.is_held() && u64::from(i.total) == *used);
            !fits && !held && has_grown(&before, &(*provider, class.clone()), *used)
        })
        .map(|((provider, class), used)| {
            let name = placement.name(provider);
            let room = match placement.inventory(provider, &class) {
                Some(inventory) => format!("of inventory {inventory}"),
                None => "without inventory".to_owned(),
            };
            let finding = format!("{used} {class} in use on {name} {room}");
            Violation::of(InvariantId::S1, finding)
        })
        .collect()
}

fn has_grown(before: &Usages, place: &(ProviderUuid, ResourceClass), used: u64) -> bool {
    used > before.get(place).copied().unwrap_or(0)
}
