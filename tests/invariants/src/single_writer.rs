//! S14: of several agents that claim one host, at most one writes.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Answer, InvariantId, SystemSnapshot, Violation};

pub(crate) fn s14(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut writers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for request in &snapshot.histories.requests {
        if let Some(node) = &request.node
            && request.answer == Answer::Acknowledged
        {
            writers.entry(node).or_default().insert(&request.sender);
        }
    }
    writers
        .into_iter()
        .filter(|(_, writers)| writers.len() > 1)
        .map(|(node, writers)| {
            let writers: Vec<_> = writers.into_iter().collect();
            let finding = format!("{} all wrote for host {node}", writers.join(" and "));
            Violation::of(InvariantId::S14, finding)
        })
        .collect()
}
