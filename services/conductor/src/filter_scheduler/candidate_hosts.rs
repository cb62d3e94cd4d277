//! Groups Placement's allocation candidates by host, and combines them with host states. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_client::placement::{Candidate, Candidates};
use berth_model::{NodeName, ProviderUuid};
use berth_scheduler::host_state::AllocationCandidate;
use berth_scheduler::{ConsideredHost, HostState};
use uuid::Uuid;

use crate::HostNode;

/// Hosts with their allocation candidates, in Placement's order.
#[derive(Debug, Default)]
pub(crate) struct CandidateHosts {
    order: Vec<ProviderUuid>,
    by_host: BTreeMap<ProviderUuid, Vec<Candidate>>,
}

impl CandidateHosts {
    /// The candidates that use none of the `avoided` providers. The candidates of each host are rotated by the
    /// guest's seed, so that concurrent guests prefer different devices.
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
            let first = instance_seed(guest) % candidates.len().max(1);
            candidates.rotate_left(first);
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = ProviderUuid> {
        self.order.iter().copied()
    }

    /// The candidates of a host; empty for an unknown host.
    pub(crate) fn of(&self, host: ProviderUuid) -> &[Candidate] {
        self.by_host.get(&host).map_or(&[], Vec::as_slice)
    }

    /// The hosts with a known state, each with its candidates.
    pub(crate) fn with_states(&self, states: Vec<Arc<HostState>>) -> Vec<HostWithState> {
        let mut states: BTreeMap<ProviderUuid, Arc<HostState>> = states
            .into_iter()
            .filter_map(|state| Some((state.uuid.parse::<ProviderUuid>().ok()?, state)))
            .collect();
        let known = self.hosts().filter_map(|host| {
            let state = states.remove(&host)?;
            let node = HostNode {
                host: state.host.clone(),
                node: NodeName::new(&state.nodename).ok()?,
            };
            let candidates = self.of(host).iter().map(to_allocation_candidate).collect();
            let considered = ConsideredHost::new(state, candidates);
            Some(HostWithState {
                host,
                node,
                considered,
            })
        });
        known.collect()
    }
}

/// A candidate host with its reported state.
pub(crate) struct HostWithState {
    pub(crate) host: ProviderUuid,
    pub(crate) node: HostNode,
    pub(crate) considered: ConsideredHost,
}

/// A number derived from the guest's UUID alone.
pub(crate) fn instance_seed(guest: Uuid) -> usize {
    guest.as_bytes().iter().fold(0usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
    })
}

/// Converts a candidate into the scheduler's type.
fn to_allocation_candidate(candidate: &Candidate) -> AllocationCandidate {
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
