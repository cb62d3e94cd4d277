//! Counts how many guests fit: allocates Placement's candidates one after another, as long as there are free
//! resources and the filters accept the host with the guests allocated before. Pure.
//!
//! The result is a lower bound: if candidates share providers, another order may fit more guests. Every counted guest
//! could be claimed in the counted order.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_client::placement::Candidate;
use berth_scheduler::select::{Scheduler, consume};
use berth_scheduler::{ConsideredHost, RequestSpec};

use super::FreeResources;

/// Counting stops at this number of guests.
pub(crate) const MAX_GUESTS: usize = 10_000;

/// A host with its candidates, in the order of the host's state.
#[derive(Debug, Clone)]
pub(crate) struct HeadroomHost {
    pub(crate) considered: ConsideredHost,
    pub(crate) candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FillResult<'a> {
    /// Hosts that could run one guest.
    pub(crate) hosts: usize,
    /// The allocated candidates, in an order in which they could be claimed.
    pub(crate) guests: Vec<&'a Candidate>,
}

/// Allocates equal guests on the hosts.
pub(crate) fn fill_hosts<'a>(
    scheduler: &Scheduler,
    request: &RequestSpec,
    hosts: &'a [HeadroomHost],
    mut room: FreeResources,
) -> FillResult<'a> {
    let considered = hosts.iter().map(|host| host.considered.clone());
    // The order of hosts does not matter.
    let (sorted, _) = scheduler.sort(request, considered.collect(), 0);
    let by_uuid = hosts.iter();
    let by_uuid: BTreeMap<&str, &HeadroomHost> = by_uuid
        .map(|host| (host.considered.state.uuid.as_str(), host))
        .collect();
    let left = sorted.as_they_came().iter();
    let left: Vec<&HeadroomHost> = left
        .filter(|host| {
            let known = by_uuid.get(host.state.uuid.as_str());
            known.is_some_and(|known| first_fitting(host, known, &room).is_some())
        })
        .filter_map(|host| by_uuid.get(host.state.uuid.as_str()).copied())
        .collect();
    let mut filled = FillResult {
        hosts: left.len(),
        guests: Vec::new(),
    };
    for host in left {
        fill_host(scheduler, request, host, &mut room, &mut filled.guests);
    }
    filled
}

/// Allocates guests on one host until it is full, or enough are counted.
fn fill_host<'a>(
    scheduler: &Scheduler,
    request: &RequestSpec,
    host: &'a HeadroomHost,
    room: &mut FreeResources,
    guests: &mut Vec<&'a Candidate>,
) {
    let candidates = &host.considered.candidates;
    let mut state = Arc::clone(&host.considered.state);
    while guests.len() < MAX_GUESTS {
        let now = ConsideredHost::new(Arc::clone(&state), Arc::clone(candidates));
        let (sorted, _) = scheduler.sort(request, vec![now], 0);
        let Some(left) = sorted.best_first().next() else {
            return;
        };
        let Some((place, candidate)) = first_fitting(left, host, room) else {
            return;
        };
        if !room.take(candidate) {
            return;
        }
        guests.push(candidate);
        // Without the NUMA and PCI filters, a boot does not check cells and devices either.
        let _ = consume(
            Arc::make_mut(&mut state),
            request,
            candidates.get(place),
            &left.limits,
            scheduler.options(),
        );
    }
}

/// The first candidate that passed the filters and fits into the free resources.
fn first_fitting<'a>(
    left: &ConsideredHost,
    host: &'a HeadroomHost,
    room: &FreeResources,
) -> Option<(usize, &'a Candidate)> {
    left.surviving().find_map(|(place, _)| {
        let candidate = host.candidates.get(place)?;
        room.has(candidate).then_some((place, candidate))
    })
}
