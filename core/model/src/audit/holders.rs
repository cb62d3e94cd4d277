//! L2: allocations and guests belong to each other.

use std::collections::BTreeSet;

use super::{ConsumerRow, InvariantId, Violation, Worlds};
use crate::{ConsumerUuid, ProviderUuid};

/// A consumer that holds units of a node has a guest (or stands for one that migrates), or is reported: by itself, or by
/// the held inventory its units are on. A guest holds units of its node. Judged for the nodes whose desired tree is known.
pub(super) fn l2(worlds: &Worlds) -> Vec<Violation> {
    let mut findings = Vec::new();
    let standing: BTreeSet<ConsumerUuid> = worlds
        .guests
        .iter()
        .flat_map(|(consumer, guest)| guest.also.iter().copied().chain([*consumer]))
        .collect();
    for (consumer, row) in &worlds.placement.consumers {
        if holds_of_a_node(worlds, row)
            && !standing.contains(consumer)
            && !reported(worlds, consumer, row)
        {
            findings.push(format!(
                "consumer {consumer} holds units, but has no guest and is not reported"
            ));
        }
    }
    for (consumer, guest) in &worlds.guests {
        let Some(root) = worlds
            .desired
            .get(&guest.node)
            .map(|tree| tree.root().uuid())
        else {
            continue;
        };
        let mut consumers = guest.also.iter().chain([consumer]);
        let has_units = consumers.any(|consumer| {
            let row = worlds.placement.consumers.get(consumer);
            row.is_some_and(|row| holds_below(worlds, row, root))
        });
        if !has_units {
            findings.push(format!(
                "guest {consumer} on {} holds nothing there",
                guest.node
            ));
        }
    }
    findings
        .into_iter()
        .map(|finding| Violation::of(InvariantId::L2, finding))
        .collect()
}

fn holds_of_a_node(worlds: &Worlds, row: &ConsumerRow) -> bool {
    let mut roots = worlds.desired.values().map(|tree| tree.root().uuid());
    roots.any(|root| holds_below(worlds, row, root))
}

fn holds_below(worlds: &Worlds, row: &ConsumerRow, root: ProviderUuid) -> bool {
    let mut places = row.allocated.keys();
    places.any(|(provider, _)| worlds.placement.top(*provider) == Some(root))
}

fn reported(worlds: &Worlds, consumer: &ConsumerUuid, row: &ConsumerRow) -> bool {
    let mut places = row.allocated.keys();
    worlds.reported.orphans.contains(consumer)
        || places.any(|place| worlds.reported.held.contains(place))
}
