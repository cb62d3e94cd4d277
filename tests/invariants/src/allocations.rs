//! L2: each allocation has its guest, and each guest has its allocation.

use std::collections::BTreeSet;

use crate::{ConsumerRow, InvariantId, SystemSnapshot, Violation};
use berth_model::{ConsumerUuid, ProviderUuid};

/// A consumer that holds units of a node has a guest (or represents one that migrates), or is reported: by itself, or
/// by the held inventory of its units. A guest holds units of its node. Checked for the nodes with a known desired
/// tree.
pub(crate) fn l2(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut findings = Vec::new();
    let existing: BTreeSet<ConsumerUuid> = snapshot
        .guests
        .iter()
        .flat_map(|(consumer, guest)| guest.migrations.iter().copied().chain([*consumer]))
        .collect();
    for (consumer, row) in &snapshot.placement.consumers {
        if holds_of_a_node(snapshot, row)
            && !existing.contains(consumer)
            && !reported(snapshot, consumer, row)
        {
            findings.push(format!(
                "consumer {consumer} holds units, but has no guest and is not reported"
            ));
        }
    }
    for (consumer, guest) in &snapshot.guests {
        let Some(root) = snapshot
            .desired
            .get(&guest.node)
            .map(|tree| tree.root().uuid())
        else {
            continue;
        };
        let mut consumers = guest.migrations.iter().chain([consumer]);
        let has_units = consumers.any(|consumer| {
            let row = snapshot.placement.consumers.get(consumer);
            row.is_some_and(|row| holds_below(snapshot, row, root))
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

fn holds_of_a_node(snapshot: &SystemSnapshot, row: &ConsumerRow) -> bool {
    let mut roots = snapshot.desired.values().map(|tree| tree.root().uuid());
    roots.any(|root| holds_below(snapshot, row, root))
}

fn holds_below(snapshot: &SystemSnapshot, row: &ConsumerRow, root: ProviderUuid) -> bool {
    let mut places = row.allocated.keys();
    places.any(|(provider, _)| snapshot.placement.top(*provider) == Some(root))
}

fn reported(snapshot: &SystemSnapshot, consumer: &ConsumerUuid, row: &ConsumerRow) -> bool {
    let mut places = row.allocated.keys();
    snapshot.reported.orphans.contains(consumer)
        || places.any(|place| snapshot.reported.held.contains(place))
}
