//! The hosts to choose from, as Placement and as the filters have them.

use std::sync::Arc;

use berth_client::placement::Candidates;
use berth_hosts::KeptServerGroup;
use berth_model::ProviderUuid;
use berth_scheduler::HostState;
use berth_scheduler::host_state::Limits;
use berth_scheduler::select::Claiming;
use berth_wire::guest::LimitsBody;

use super::question::Asked;
use crate::boot::place::NO_OTHER;
use crate::boot::{BootError, Requested};
use crate::destinations::{Considered, FilterScheduler, Known};
use crate::journal::Chosen;
use crate::way::Way;

/// Which hosts a search is among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    /// Those on which no attempt failed: what is wrong with a host is often not its device.
    Others,
    /// All, whichever of their devices have not failed.
    Any,
}

pub(super) struct Choices {
    pub(super) considered: Considered,
    pub(super) known: Vec<Known>,
}

impl Choices {
    pub(super) fn known(&self, state: &HostState) -> Option<&Known> {
        let mut known = self.known.iter();
        known.find(|it| it.considered.state.uuid == state.uuid)
    }

    pub(super) fn chosen(&self, claiming: &Claiming<'_>) -> Result<Chosen, BootError> {
        let claim = claiming.claim();
        let known = self.known(claim.host);
        let candidate = known.and_then(|it| self.considered.of(it.host).get(claim.place));
        match (known, candidate) {
            (Some(known), Some(candidate)) => Ok(Chosen {
                host: known.host,
                node: known.node.clone(),
                host_name: Some(claim.host.host.clone()),
                cell: Some(claim.host.cell.clone()),
                candidate: candidate.clone(),
                limits: limits(claim.limits),
            }),
            _ => Err(BootError::NoValidHost(NO_OTHER.to_owned().into())),
        }
    }
}

impl Requested {
    /// Among which hosts it is looked first.
    pub(super) fn hosts_first(&self) -> Hosts {
        match self.failed_hosts().next() {
            Some(_) => Hosts::Others,
            None => Hosts::Any,
        }
    }

    /// The hosts of earlier attempts that failed by what was claimed there.
    fn failed_hosts(&self) -> impl Iterator<Item = ProviderUuid> {
        let attempts = (1u32..).zip(&self.record.failures);
        let failed = attempts.filter(|(_, failed)| !failed.avoid.is_empty());
        failed.filter_map(|(attempt, _)| Some(self.record.chosen(attempt)?.host))
    }

    /// Placement's answer without what earlier attempts failed on. Where there is no other host it is another device of those, and at
    /// last what was not ready: it may be by now, and is waited for otherwise.
    pub(super) fn considered(&self, found: &Candidates, hosts: Hosts) -> Considered {
        let guest = *self.record.request.uuid().as_uuid();
        if hosts == Hosts::Others {
            let avoided = self.avoided(false).into_iter().chain(self.failed_hosts());
            let others = Considered::new(found, &avoided.collect(), guest);
            if !others.is_empty() {
                return others;
            }
        }
        let ready = Considered::new(found, &self.avoided(false), guest);
        match ready.is_empty() {
            false => ready,
            true => Considered::new(found, &self.avoided(true), guest),
        }
    }

    /// The hosts whose state is known, whose agent can be reached, and which are in the cell of the attempts before; and how many are
    /// left out because nothing is known of them or nobody reaches them.
    pub(super) async fn known(
        &self,
        scheduler: &FilterScheduler,
        way: &Way,
        considered: &Considered,
        asked: &Asked,
        group: Option<&KeptServerGroup>,
    ) -> Result<(Vec<Known>, usize), BootError> {
        let roots: Vec<_> = considered.hosts().map(|host| *host.as_uuid()).collect();
        let mut states = scheduler.hosts.states(&roots).await?;
        if let Some(group) = group {
            let guest = *self.record.request.uuid().as_uuid();
            group.occupy(guest, &mut states);
            forget(&guest.to_string(), &mut states);
        }
        let mut known = considered.with_states(states);
        known.retain(|it| way.agents.agent(&it.node).is_some());
        let unheard = roots.len() - known.len();
        let to = asked.request.requested_destination.as_ref();
        if let Some(cell) = to.and_then(|to| to.cell.as_ref()) {
            known.retain(|it| it.considered.state.cell == *cell);
        }
        Ok((known, unheard))
    }

    /// Before the first claim on a host: its candidates, those with near devices first.
    pub(super) async fn nearest<'a>(
        &self,
        way: &Way,
        claiming: Claiming<'a>,
        choices: &Choices,
    ) -> Claiming<'a> {
        let host = claiming.claim().host;
        let Some(known) = choices.known(host).filter(|_| claiming.is_first_of_host()) else {
            return claiming;
        };
        let given = choices.considered.of(known.host);
        let limits = limits(claiming.claim().limits);
        let near = self
            .nearest_first(way, &known.node, &limits, given.to_vec())
            .await;
        let places = near.iter();
        let places = places.filter_map(|it| given.iter().position(|other| other == it));
        let places: Vec<usize> = places.collect();
        claiming.in_order(&places)
    }
}

/// Of the filters' bounds those that an agent can look at; the others are Placement's, which keeps them by the claim.
fn limits(noted: &Limits) -> LimitsBody {
    LimitsBody {
        host_cells: None,
        cpu_allocation_ratio: noted.numa.map(|numa| numa.cpu_allocation_ratio),
        ram_allocation_ratio: noted.numa.map(|numa| numa.ram_allocation_ratio),
    }
}

/// A host may still tell of what an earlier attempt left there: a guest that is to be placed is nowhere.
fn forget(guest: &str, states: &mut [Arc<HostState>]) {
    for state in states {
        if state.instances.contains(guest) {
            Arc::make_mut(state).instances.remove(guest);
        }
    }
}
