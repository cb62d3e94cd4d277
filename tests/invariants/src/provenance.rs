//! S9: each row of Placement existed at the start of the run or was written by a request.

use crate::{
    AllocatedAmounts, Answer, Fact, InvariantId, PlacementSnapshot, SystemSnapshot, Violation,
};

/// Not checked if the rows at the start are unknown.
pub(crate) fn s9(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let Some(began) = &snapshot.histories.began else {
        return Vec::new();
    };
    let sent: Vec<&Fact> = snapshot
        .histories
        .requests
        .iter()
        .filter(|request| request.answer != Answer::Refused)
        .flat_map(|request| &request.facts)
        .collect();
    let placement = &snapshot.placement;
    providers(placement, began, &sent)
        .chain(inventories(placement, began, &sent))
        .chain(allocations(placement, began, &sent))
        .map(|finding| Violation::of(InvariantId::S9, finding))
        .collect()
}

fn providers<'a>(
    placement: &'a PlacementSnapshot,
    began: &'a PlacementSnapshot,
    sent: &'a [&'a Fact],
) -> impl Iterator<Item = String> + 'a {
    let caused = |uuid| {
        began.providers.contains_key(uuid)
            || sent
                .iter()
                .any(|fact| matches!(fact, Fact::Provider { uuid: made, .. } if made == uuid))
    };
    placement
        .providers
        .iter()
        .filter(move |(uuid, _)| !caused(uuid))
        .map(|(uuid, row)| format!("no request created provider {} ({uuid})", row.name))
}

fn inventories<'a>(
    placement: &'a PlacementSnapshot,
    began: &'a PlacementSnapshot,
    sent: &'a [&'a Fact],
) -> impl Iterator<Item = String> + 'a {
    placement.providers.iter().flat_map(move |(uuid, row)| {
        row.inventories
            .iter()
            .filter_map(move |(class, inventory)| {
                let reported = |fact: &&Fact| {
                    matches!(fact, Fact::Inventories(of, all)
                    if of == uuid && all.get(class) == Some(inventory))
                };
                let caused =
                    began.inventory(*uuid, class) == Some(inventory) || sent.iter().any(reported);
                (!caused)
                    .then(|| format!("no request reported {class} {inventory} on {}", row.name))
            })
    })
}

fn allocations<'a>(
    placement: &'a PlacementSnapshot,
    began: &'a PlacementSnapshot,
    sent: &'a [&'a Fact],
) -> impl Iterator<Item = String> + 'a {
    let caused = |consumer, allocated: &AllocatedAmounts| {
        let before = began.consumers.get(consumer);
        before.is_some_and(|before| before.allocated == *allocated)
            || sent.iter().any(|fact| {
                matches!(fact, Fact::Allocations(who, all)
                    if who == consumer && all == allocated)
            })
    };
    placement
        .consumers
        .iter()
        .filter(move |(consumer, row)| {
            !row.allocated.is_empty() && !caused(consumer, &row.allocated)
        })
        .map(|(consumer, _)| format!("no request claimed the allocations of consumer {consumer}"))
}
