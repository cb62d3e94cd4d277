//! From a request to a claim: profile, groups, candidates, order, claim.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::placement::{Candidate, Candidates, ClaimError, Claimed};
use berth_model::{NodeName, ProviderUuid, RequestGroups};
use tokio_util::sync::CancellationToken;

use super::{BootError, Placed, Requested, called_off};
use crate::diagnosis;
use crate::journal::{BootStep, Chosen, StepDetail, StepState};
use crate::scheduler::HostCandidates;
use crate::way::Way;

/// The most hosts whose names are asked for. Without a scheduler that compares them, one is as good as the next.
const MOST_HOSTS: usize = 64;

impl Requested {
    pub(super) async fn place(
        self,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<Placed, BootError> {
        // What was written down before may have been claimed.
        if let Some(chosen) = self.record.chosen(self.record.attempt).cloned() {
            match self.claim(way, &chosen).await {
                Ok(claimed) => return Ok(self.placed(chosen, claimed)),
                Err(BootError::Claim(ClaimError::Taken(_))) => {}
                Err(error) => return Err(error),
            }
        }
        // Whoever has the UUID keeps what it holds, were it the same: an equal claim is taken for one's own from here on.
        let consumer = self.record.request.uuid();
        if way.placement.allocations(consumer).await?.is_some() {
            return Err(ClaimError::HoldsOther { consumer }.into());
        }
        let groups = self.groups(way).await?;
        let found = match way.placement.allocation_candidates(&groups).await {
            Ok(found) => found,
            Err(error) => {
                return Err(match diagnosis::reported_by_nobody(&error) {
                    Some(why) => BootError::NoValidHost(why),
                    None => error.into(),
                });
            }
        };
        let mut hosts = self.hosts(way, &found, &self.avoided(false)).await?;
        if hosts.is_empty() {
            // What was not ready may be by now, and is waited for otherwise.
            hosts = self.hosts(way, &found, &self.avoided(true)).await?;
        }
        let mut taken = 0;
        for host in way.scheduler.order(&self.record.request, hosts) {
            let (provider, node) = (host.host, host.node.clone());
            for candidate in self.nearest_first(way, host).await {
                called_off(cancel)?;
                let chosen = Chosen {
                    host: provider,
                    node: node.clone(),
                    candidate,
                };
                match self.claim(way, &chosen).await {
                    Ok(claimed) => return Ok(self.placed(chosen, claimed)),
                    Err(BootError::Claim(ClaimError::Taken(_))) => taken += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        if taken > 0 {
            self.nothing_claimed(way).await?;
            return Err(BootError::AllTaken(taken));
        }
        if self.avoided(false).is_empty() {
            let why = diagnosis::why_none(&way.placement, &groups).await?;
            return Err(BootError::NoValidHost(why));
        }
        let why = "there is no other host or device with what is asked for".to_owned();
        Err(BootError::NoValidHost(why))
    }

    fn placed(self, chosen: Chosen, claimed: Claimed) -> Placed {
        Placed {
            record: self.record,
            chosen,
            claimed,
        }
    }

    /// What Placement is asked.
    async fn groups(&self, way: &Way) -> Result<RequestGroups, BootError> {
        let request = &self.record.request;
        let mut groups = request.groups().clone();
        if let Some(name) = request.profile() {
            let profile = way.accelerators.device_profile_groups(name).await?;
            let profile = profile.ok_or_else(|| BootError::NoProfile(name.to_string()))?;
            groups = groups.with_device_profile(&profile)?;
        }
        groups.check()?;
        let Some(node) = request.node() else {
            return Ok(groups);
        };
        let known = way.placement.provider_by_name(node.root_name()).await?;
        match known {
            Some(root) => Ok(groups.in_tree_of(root.uuid())),
            None => Err(BootError::NoValidHost(format!(
                "Placement knows no host {node}"
            ))),
        }
    }

    /// The providers that earlier attempts failed on; `lasting`: for reasons that do not pass by themselves.
    fn avoided(&self, lasting: bool) -> BTreeSet<ProviderUuid> {
        let failures = self.record.failures.iter();
        failures
            .filter(|failed| !(lasting && failed.passes))
            .flat_map(|failed| failed.avoid.iter().copied().map(ProviderUuid::from))
            .collect()
    }

    /// The candidates by host, without those that were tried in vain and those whose agent nobody knows.
    async fn hosts(
        &self,
        way: &Way,
        found: &Candidates,
        avoided: &BTreeSet<ProviderUuid>,
    ) -> Result<Vec<HostCandidates>, BootError> {
        let tried = |host: &ProviderUuid, candidate: &Candidate| {
            let mut providers = candidate.resources().keys();
            avoided.contains(host) || providers.any(|(provider, _)| avoided.contains(provider))
        };
        let mut order = Vec::new();
        let mut by_host: BTreeMap<ProviderUuid, Vec<Candidate>> = BTreeMap::new();
        for candidate in &found.candidates {
            let Some(host) = found.host(candidate) else {
                continue;
            };
            if tried(&host, candidate) {
                continue;
            }
            let candidates = by_host.entry(host).or_insert_with(|| {
                order.push(host);
                Vec::new()
            });
            candidates.push(candidate.clone());
        }
        let mut hosts = Vec::new();
        for host in order.into_iter().take(MOST_HOSTS) {
            // One that went away meanwhile, or whose name is no node's, is no host of ours.
            let provider = way.placement.provider(host).await?;
            let name = provider.and_then(|it| NodeName::new(it.name.as_str()).ok());
            let Some(node) = name.filter(|node| way.agents.agent(node).is_some()) else {
                continue;
            };
            let candidates = by_host.remove(&host).unwrap_or_default();
            hosts.push(HostCandidates {
                host,
                node,
                candidates,
            });
        }
        Ok(hosts)
    }

    async fn claim(&self, way: &Way, chosen: &Chosen) -> Result<Claimed, BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let detail = || StepDetail::Claim(Box::new(chosen.clone()));
        way.note(place, BootStep::Claim, StepState::Begun, detail())
            .await?;
        let claimant = self.record.request.claimant();
        let candidate = chosen.candidate.clone();
        match candidate.claim(&way.placement, &claimant).await {
            Ok(claimed) => {
                way.note(place, BootStep::Claim, StepState::Done, detail())
                    .await?;
                Ok(claimed)
            }
            Err(error) => {
                // What the guest's UUID holds is not this attempt's to release, unless it was claimed before and moved since.
                let before = self.record.step(BootStep::Claim).map(|it| it.state);
                let holds_other = matches!(error, ClaimError::HoldsOther { .. });
                if holds_other && before != Some(StepState::Done) {
                    self.nothing_claimed(way).await?;
                }
                Err(error.into())
            }
        }
    }

    async fn nothing_claimed(&self, way: &Way) -> Result<(), BootError> {
        let place = (self.record.request.uuid(), self.record.attempt);
        let (step, state) = (BootStep::Claim, StepState::Undone);
        Ok(way.note(place, step, state, StepDetail::Nothing).await?)
    }
}
