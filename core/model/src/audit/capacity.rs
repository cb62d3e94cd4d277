//! S1: nobody is promised what is not there.

use super::{InvariantId, Violation, Worlds};
use crate::Usages;

/// Usage is within capacity; or all of it is held on inventory of exactly that size; or it has not grown since the run
/// began (it was over before, or its inventory shrank under it, which Placement takes).
pub(super) fn s1(worlds: &Worlds) -> Vec<Violation> {
    let placement = &worlds.placement;
    let began = worlds.histories.began.as_ref();
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

fn has_grown(
    before: &Usages,
    place: &(crate::ProviderUuid, crate::ResourceClass),
    used: u64,
) -> bool {
    used > before.get(place).copied().unwrap_or(0)
}
