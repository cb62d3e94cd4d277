//! Placement's answer as hosts that filters look at. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_client::placement::{Candidate, Candidates};
use berth_model::{NodeName, ProviderUuid};
use berth_scheduler::host_state::AllocationCandidate;
use berth_scheduler::{ConsideredHost, HostState};
use uuid::Uuid;

/// Hosts with their candidates, in the order in which they are looked at.
#[derive(Debug, Default)]
pub(crate) struct Considered {
    order: Vec<ProviderUuid>,
    by_host: BTreeMap<ProviderUuid, Vec<Candidate>>,
}

impl Considered {
    /// Those of an answer that have none of these providers. Of a host's candidates each guest begins at another one, so that guests
    /// that are asked for at the same time do not all want the same device.
    pub(crate) fn new(found: &Candidates, avoided: &BTreeSet<ProviderUuid>, guest: Uuid) -> Self {
        let mut all = Self::default();
        for candidate in &found.candidates {
            let Some(host) = found.host(candidate) else {
                continue;
            };
            let mut providers = candidate.resources().keys();
            if avoided.contains(&host) || providers.any(|(it, _)| avoided.contains(it)) {
                continue;
            }
            let candidates = all.by_host.entry(host).or_insert_with(|| {
                all.order.push(host);
                Vec::new()
            });
            candidates.push(candidate.clone());
        }
        for candidates in all.by_host.values_mut() {
            let first = throw(guest) % candidates.len().max(1);
            candidates.rotate_left(first);
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The hosts, in their order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = ProviderUuid> {
        self.order.iter().copied()
    }

    /// The candidates of a host, and those of none for a host that is not there.
    pub(crate) fn of(&self, host: ProviderUuid) -> &[Candidate] {
        self.by_host.get(&host).map_or(&[], Vec::as_slice)
    }

    /// With the states that are known of them; a host of which none is known is left out.
    pub(crate) fn with_states(&self, states: Vec<Arc<HostState>>) -> Vec<Known> {
        let mut states: BTreeMap<ProviderUuid, Arc<HostState>> = states
            .into_iter()
            .filter_map(|state| Some((state.uuid.parse::<ProviderUuid>().ok()?, state)))
            .collect();
        let known = self.hosts().filter_map(|host| {
            let state = states.remove(&host)?;
            let node = NodeName::new(&state.nodename).ok()?;
            let candidates = self.of(host).iter().map(seen).collect();
            let considered = ConsideredHost::new(state, candidates);
            Some(Known {
                host,
                node,
                considered,
            })
        });
        known.collect()
    }
}

/// A host whose agent told its state.
pub(crate) struct Known {
    pub(crate) host: ProviderUuid,
    pub(crate) node: NodeName,
    pub(crate) considered: ConsideredHost,
}

/// A number that a guest has by its UUID alone.
pub(crate) fn throw(guest: Uuid) -> usize {
    guest.as_bytes().iter().fold(0usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
    })
}

/// A candidate as filters see it.
fn seen(candidate: &Candidate) -> AllocationCandidate {
    let body = candidate.to_body();
    let number = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let allocations = body.allocations.into_iter().map(|(provider, taken)| {
        let amounts = taken.resources.into_iter();
        let amounts = amounts.map(|(class, amount)| (class, number(amount)));
        (provider.to_string(), amounts.collect())
    });
    let mappings = body.mappings.into_iter().flatten();
    let mappings = mappings
        .map(|(group, providers)| (group, providers.iter().map(ToString::to_string).collect()));
    AllocationCandidate {
        allocations: allocations.collect(),
        mappings: mappings.collect(),
    }
}
