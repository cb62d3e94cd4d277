//! The hosts of a search: Placement's candidates combined with the hosts' states.

use std::sync::Arc;

use berth_client::placement::Candidates;
use berth_hosts::StoredServerGroup;
use berth_model::ProviderUuid;
use berth_scheduler::HostState;
use berth_scheduler::host_state::SchedulerLimits;
use berth_scheduler::select::PendingClaim;
use berth_wire::guest::LimitsBody;

use super::scheduling_query::SchedulingQuery;
use crate::boot::{BootError, RequestedBoot};
use crate::boot_context::BootContext;
use crate::conductor::ZONE;
use crate::filter_scheduler::{CandidateHosts, FilterScheduler, HostWithState};
use crate::journal::ChosenHost;

/// Reason if all candidates were tried.
pub(super) const NO_OTHER: &str = "no other host or device satisfies the request";

/// Which hosts a search includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostScope {
    /// Hosts on which no attempt failed: a failure often concerns the whole host and not only a device.
    Untried,
    /// All hosts, without the devices that failed.
    All,
}

pub(super) struct HostChoices {
    pub(super) considered: CandidateHosts,
    pub(super) known: Vec<HostWithState>,
}

impl HostChoices {
    pub(super) fn known(&self, state: &HostState) -> Option<&HostWithState> {
        let mut known = self.known.iter();
        known.find(|it| it.considered.state.uuid == state.uuid)
    }

    pub(super) fn chosen(
        &self,
        claiming: &PendingClaim<'_>,
        default_zone: &str,
    ) -> Result<ChosenHost, BootError> {
        let claim = claiming.claim();
        let known = self.known(claim.host);
        let candidate = known.and_then(|it| self.considered.of(it.host).get(claim.place));
        match (known, candidate) {
            (Some(known), Some(candidate)) => Ok(ChosenHost {
                host: known.host,
                node: known.node.node.clone(),
                host_name: Some(claim.host.host.clone()),
                cell: Some(claim.host.cell.clone()),
                zone: {
                    let mut zones = claim.host.aggregates.raw(ZONE);
                    Some(zones.next().unwrap_or(default_zone).to_owned())
                },
                candidate: candidate.clone(),
                limits: agent_limits(claim.limits),
            }),
            _ => Err(BootError::NoValidHost(NO_OTHER.to_owned().into())),
        }
    }
}

impl RequestedBoot {
    /// The scope of the first round.
    pub(super) fn initial_scope(&self) -> HostScope {
        match self.failed_hosts().next() {
            Some(_) => HostScope::Untried,
            None => HostScope::All,
        }
    }

    /// The hosts of earlier attempts that failed because of what was claimed there.
    fn failed_hosts(&self) -> impl Iterator<Item = ProviderUuid> {
        let attempts = (1u32..).zip(&self.record.failures);
        let failed = attempts.filter(|(_, failed)| !failed.avoid.is_empty());
        failed.filter_map(|(attempt, _)| Some(self.record.chosen(attempt)?.host))
    }

    /// Placement's candidates without the ones of failed attempts. If nothing else is left, includes
    /// other devices of the failed hosts, and finally the ones that were not ready.
    pub(super) fn candidate_hosts(&self, found: &Candidates, hosts: HostScope) -> CandidateHosts {
        let guest = *self.record.request.uuid().as_uuid();
        if hosts == HostScope::Untried {
            let avoided = self.avoided(false).into_iter().chain(self.failed_hosts());
            let others = CandidateHosts::new(found, &avoided.collect(), guest);
            if !others.is_empty() {
                return others;
            }
        }
        let ready = CandidateHosts::new(found, &self.avoided(false), guest);
        match ready.is_empty() {
            false => ready,
            true => CandidateHosts::new(found, &self.avoided(true), guest),
        }
    }

    /// The hosts with a known state and a reachable agent, in the cell of earlier attempts; and the
    /// number of hosts without.
    pub(super) async fn known_hosts(
        &self,
        scheduler: &FilterScheduler,
        context: &BootContext,
        considered: &CandidateHosts,
        query: &SchedulingQuery,
        group: Option<&StoredServerGroup>,
    ) -> Result<(Vec<HostWithState>, usize), BootError> {
        let roots: Vec<_> = considered.hosts().map(|host| *host.as_uuid()).collect();
        let mut states = scheduler.hosts.states(&roots).await?;
        if let Some(group) = group {
            let guest = *self.record.request.uuid().as_uuid();
            group.occupy(guest, &mut states);
            remove_instance(&guest.to_string(), &mut states);
        }
        let mut known = considered.with_states(states);
        known.retain(|it| context.agents.agent(&it.node).is_some());
        let unknown = roots.len() - known.len();
        let destination = query.request.requested_destination.as_ref();
        if let Some(cell) = destination.and_then(|to| to.cell.as_ref()) {
            known.retain(|it| it.considered.state.cell == *cell);
        }
        Ok((known, unknown))
    }

    /// Before the first claim on a host, orders its candidates by NUMA distance.
    pub(super) async fn order_candidates<'a>(
        &self,
        context: &BootContext,
        claiming: PendingClaim<'a>,
        choices: &HostChoices,
    ) -> PendingClaim<'a> {
        let host = claiming.claim().host;
        let Some(known) = choices.known(host).filter(|_| claiming.is_first_of_host()) else {
            return claiming;
        };
        let given = choices.considered.of(known.host);
        let limits = agent_limits(claiming.claim().limits);
        let near = self
            .order_by_numa_distance(context, &known.node, &limits, given.to_vec())
            .await;
        let places = near.iter();
        let places = places.filter_map(|it| given.iter().position(|other| other == it));
        let places: Vec<usize> = places.collect();
        claiming.in_order(&places)
    }
}

/// The filters' limits that an agent can check. Placement enforces the others with the claim.
fn agent_limits(limits: &SchedulerLimits) -> LimitsBody {
    LimitsBody {
        host_cells: None,
        cpu_allocation_ratio: limits.numa.map(|numa| numa.cpu_allocation_ratio),
        ram_allocation_ratio: limits.numa.map(|numa| numa.ram_allocation_ratio),
    }
}

/// Removes the instance from the hosts' states: a host may still report what an earlier attempt left there.
fn remove_instance(guest: &str, states: &mut [Arc<HostState>]) {
    for state in states {
        if state.instances.contains(guest) {
            Arc::make_mut(state).instances.remove(guest);
        }
    }
}
