//! Hosts for the case that a build on the selected one fails.

use super::ask::ClaimPolicy;
use super::claiming::{SelectionRun, is_same};
use super::outcome::Selection;
use crate::host_state::ConsideredHost;

/// For each instance the selected host and its alternates: the best of its cell that no instance of the request was given. Several
/// instances may have the same ones, and there may be fewer than are wanted.
pub(super) fn selections(run: &SelectionRun<'_>) -> Vec<Vec<Selection>> {
    let is_chosen = |host: &ConsideredHost| {
        let mut chosen = run.chosen.iter();
        chosen.any(|one| is_same(&one.selection.host, &host.state))
    };
    let wanted = run.alternates();
    let free: Vec<&ConsideredHost> = match wanted {
        0 => Vec::new(),
        _ => run
            .sorted
            .best_first()
            .filter(|it| !is_chosen(it))
            .collect(),
    };
    let with_alternates = run.chosen.iter().map(|one| {
        let cell = &one.selection.host.cell;
        let in_cell = free.iter().filter(|host| host.state.cell == *cell);
        let alternates = in_cell.filter_map(|host| alternate(host, run.ask.claims));
        let selected = std::iter::once(one.selection.clone());
        selected.chain(alternates.take(wanted)).collect()
    });
    with_alternates.collect()
}

/// By the first candidate; a host that has none left is no alternate where one is needed.
fn alternate(host: &ConsideredHost, claims: ClaimPolicy) -> Option<Selection> {
    let candidate = host.surviving().next().map(|(_, candidate)| candidate);
    if candidate.is_none() && claims == ClaimPolicy::Needed {
        return None;
    }
    Some(Selection {
        host: host.state.clone(),
        candidate: candidate.filter(|_| claims == ClaimPolicy::Needed).cloned(),
        limits: host.limits.clone(),
    })
}
