//! A claim without filters and weighers: hosts as Placement answers them.

use berth_client::placement::{Candidates, ClaimError};
use berth_model::{CandidatesQuery, NodeName, ProviderUuid, RequestGroups};
use berth_wire::guest::LimitsBody;
use tokio_util::sync::CancellationToken;

use super::{NO_OTHER, Requested};
use crate::boot::{BootError, Placed, called_off};
use crate::destinations::Considered;
use crate::diagnosis;
use crate::journal::Chosen;
use crate::way::Way;

/// The most hosts whose names are asked for. Without a scheduler that compares them, one is as good as the next.
const MOST_HOSTS: usize = 64;

impl Requested {
    pub(super) async fn place_as_answered(
        self,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<Placed, BootError> {
        let groups = self.groups(way).await?;
        let found = match way.placement.allocation_candidates(&groups).await {
            Ok(found) => found,
            Err(error) => return Err(diagnosis::told_by_placement(error)),
        };
        let mut hosts = self.hosts(way, &found, false).await?;
        if hosts.is_empty() {
            // What was not ready may be by now, and is waited for otherwise.
            hosts = self.hosts(way, &found, true).await?;
        }
        let (mut taken, none) = (0, LimitsBody::default());
        for (host, node, candidates) in hosts {
            for candidate in self.nearest_first(way, &node, &none, candidates).await {
                called_off(cancel)?;
                let chosen = Chosen {
                    host,
                    node: node.clone(),
                    cell: None,
                    candidate,
                    limits: LimitsBody::default(),
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
            let query = CandidatesQuery::from(&groups);
            let why = diagnosis::why_none(&way.placement, &query).await?;
            return Err(BootError::NoValidHost(why));
        }
        Err(BootError::NoValidHost(NO_OTHER.to_owned()))
    }

    /// What Placement is asked.
    async fn groups(&self, way: &Way) -> Result<RequestGroups, BootError> {
        let request = &self.record.request;
        let mut groups = request.groups().clone();
        if let Some(profile) = self.profile(way).await? {
            groups = groups.with_device_profile(&profile)?;
        }
        groups.check()?;
        match self.node_provider(way).await? {
            Some((_, provider)) => Ok(groups.in_tree_of(provider)),
            None => Ok(groups),
        }
    }

    /// The hosts with their candidates, without those that were tried in vain and those whose agent nobody knows.
    async fn hosts(
        &self,
        way: &Way,
        found: &Candidates,
        lasting: bool,
    ) -> Result<
        Vec<(
            ProviderUuid,
            NodeName,
            Vec<berth_client::placement::Candidate>,
        )>,
        BootError,
    > {
        let guest = *self.record.request.uuid().as_uuid();
        let considered = Considered::new(found, &self.avoided(lasting), guest);
        let mut hosts = Vec::new();
        for host in considered.hosts().take(MOST_HOSTS) {
            // One that went away meanwhile, or whose name is no node's, is no host of ours.
            let provider = way.placement.provider(host).await?;
            let name = provider.and_then(|it| NodeName::new(it.name.as_str()).ok());
            let Some(node) = name.filter(|node| way.agents.agent(node).is_some()) else {
                continue;
            };
            hosts.push((host, node, considered.of(host).to_vec()));
        }
        Ok(hosts)
    }
}
