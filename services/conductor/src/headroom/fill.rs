//! How many guests fit: Placement's candidates are taken one after another, as often as there is room and filters let the host pass
//! with those that it took before. Pure.
//!
//! That is a lower bound. Which candidate is taken first can cost another guest its place, where providers are shared between
//! candidates; to find the best order, all would have to be tried. Each guest that is counted could be claimed, in the order
//! in which they are counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_client::placement::Candidate;
use berth_scheduler::select::{Scheduler, consume};
use berth_scheduler::{ConsideredHost, RequestSpec};

use super::Room;

/// So many guests of a flavor are counted. Nobody needs to be told that there is room for more.
pub(crate) const MOST_GUESTS: usize = 10_000;

/// A host, and Placement's candidates on it in the order in which the host has them.
#[derive(Debug, Clone)]
pub(crate) struct HostWithRoom {
    pub(crate) considered: ConsideredHost,
    pub(crate) candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Filled<'a> {
    /// Hosts that would take one guest.
    pub(crate) hosts: usize,
    /// The guests' claims, in an order in which they could be made.
    pub(crate) guests: Vec<&'a Candidate>,
}

/// Fills the hosts with guests that ask for the same.
pub(crate) fn fill<'a>(
    scheduler: &Scheduler,
    request: &RequestSpec,
    hosts: &'a [HostWithRoom],
    mut room: Room,
) -> Filled<'a> {
    let considered = hosts.iter().map(|host| host.considered.clone());
    // Which host is the best is of no matter here, and so is chance.
    let (sorted, _) = scheduler.sort(request, considered.collect(), 0);
    let by_uuid = hosts.iter();
    let by_uuid: BTreeMap<&str, &HostWithRoom> = by_uuid
        .map(|host| (host.considered.state.uuid.as_str(), host))
        .collect();
    let left = sorted.as_they_came().iter();
    let left: Vec<&HostWithRoom> = left
        .filter(|host| {
            let known = by_uuid.get(host.state.uuid.as_str());
            known.is_some_and(|known| first_with_room(host, known, &room).is_some())
        })
        .filter_map(|host| by_uuid.get(host.state.uuid.as_str()).copied())
        .collect();
    let mut filled = Filled {
        hosts: left.len(),
        guests: Vec::new(),
    };
    for host in left {
        fill_host(scheduler, request, host, &mut room, &mut filled.guests);
    }
    filled
}

/// Puts guests on one host until it takes none, or enough are counted.
fn fill_host<'a>(
    scheduler: &Scheduler,
    request: &RequestSpec,
    host: &'a HostWithRoom,
    room: &mut Room,
    guests: &mut Vec<&'a Candidate>,
) {
    let candidates = &host.considered.candidates;
    let mut state = Arc::clone(&host.considered.state);
    while guests.len() < MOST_GUESTS {
        let now = ConsideredHost::new(Arc::clone(&state), Arc::clone(candidates));
        let (sorted, _) = scheduler.sort(request, vec![now], 0);
        let Some(left) = sorted.best_first().next() else {
            return;
        };
        let Some((place, candidate)) = first_with_room(left, host, room) else {
            return;
        };
        if !room.take(candidate) {
            return;
        }
        guests.push(candidate);
        // Cells and devices that the host has not, where no filter was asked for them, are not counted in a boot either.
        let _ = consume(
            Arc::make_mut(&mut state),
            request,
            candidates.get(place),
            &left.limits,
            scheduler.options(),
        );
    }
}

/// The first candidate that filters left and that there is room for.
fn first_with_room<'a>(
    left: &ConsideredHost,
    host: &'a HostWithRoom,
    room: &Room,
) -> Option<(usize, &'a Candidate)> {
    left.surviving().find_map(|(place, _)| {
        let candidate = host.candidates.get(place)?;
        room.has(candidate).then_some((place, candidate))
    })
}
