//! The aggregate mirror: copies host aggregates to Placement, so that the scheduler can query candidates by zone, project
//! or isolated hosts there. The root provider of each node is put into the aggregates of its host, under the same UUIDs.
//!
//! The database of the hosts is authoritative. Placement is updated after each change of an aggregate, at start, and
//! every [`ComputeOptions::mirror_interval`], which repairs missed changes. Aggregates of Placement that are not host
//! aggregates belong to other clients and are not touched.
//!
//! [`ComputeOptions::mirror_interval`]: crate::ComputeOptions::mirror_interval

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_client::{PlacementClient, PlacementError};
use berth_hosts::{HostAggregateError, HostError};
use berth_model::{AggregateUuid, ProviderUuid};
use tokio::time::timeout;

use crate::compute::Compute;

/// The maximum number of attempts for a provider that others change at the same time.
const TRIES: u32 = 4;

/// How long a request that changed an aggregate waits for Placement. The rest is done in the background.
const WAIT: Duration = Duration::from_secs(5);

/// Why Placement could not be updated.
#[derive(Debug, thiserror::Error)]
pub enum AggregateMirrorError {
    /// The aggregates cannot be read.
    #[error(transparent)]
    Aggregates(#[from] HostAggregateError),
    /// The hosts cannot be read.
    #[error(transparent)]
    Hosts(#[from] HostError),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error("Placement did not answer within {WAIT:?}")]
    Late,
}

/// The aggregates that one provider must join and leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct AggregateChange {
    joins: BTreeSet<AggregateUuid>,
    leaves: BTreeSet<AggregateUuid>,
}

/// The desired and the actual members of an aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct AggregateMembers {
    wanted: BTreeSet<ProviderUuid>,
    found: BTreeSet<ProviderUuid>,
}

/// The changes per provider. Providers that are not a node's root are skipped.
fn differences(
    aggregates: &BTreeMap<AggregateUuid, AggregateMembers>,
    nodes: &BTreeSet<ProviderUuid>,
) -> BTreeMap<ProviderUuid, AggregateChange> {
    let mut changes: BTreeMap<ProviderUuid, AggregateChange> = BTreeMap::new();
    for (aggregate, members) in aggregates {
        for provider in members.wanted.difference(&members.found) {
            let change = changes.entry(*provider).or_default();
            change.joins.insert(*aggregate);
        }
        let extra = members.found.difference(&members.wanted);
        for provider in extra.filter(|it| nodes.contains(it)) {
            let change = changes.entry(*provider).or_default();
            change.leaves.insert(*aggregate);
        }
    }
    changes
}

impl Compute {
    /// Brings Placement's aggregates up to date and returns the number of changed providers. Nodes whose provider does
    /// not exist yet are skipped.
    ///
    /// Errors: A database or Placement is unavailable. Completed changes remain; the next call does the rest.
    pub async fn mirror_aggregates(&self) -> Result<usize, AggregateMirrorError> {
        let _turn = self.inner.mirror.lock().await;
        let placement = self.inner.conductor.placement();
        let mut nodes: BTreeMap<String, BTreeSet<ProviderUuid>> = BTreeMap::new();
        for host in self.inner.hosts.hosts().await? {
            let uuids = host.nodes.iter().map(|node| ProviderUuid::from(node.uuid));
            nodes.insert(host.host, uuids.collect());
        }
        let mut aggregates = BTreeMap::new();
        for aggregate in self.inner.hosts.aggregates().await? {
            let uuid = AggregateUuid::from(aggregate.uuid);
            let hosts = aggregate.hosts.iter().filter_map(|host| nodes.get(host));
            let members = AggregateMembers {
                wanted: hosts.flatten().copied().collect(),
                found: placement.providers_in_aggregate(uuid).await?,
            };
            aggregates.insert(uuid, members);
        }
        let nodes = nodes.into_values().flatten().collect();
        let mut changed = 0;
        for (provider, change) in differences(&aggregates, &nodes) {
            if update_provider(placement, provider, &change).await? {
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Like [`Compute::mirror_aggregates`], with a deadline for use in a request.
    pub(crate) async fn mirror_in_time(&self) -> Result<usize, AggregateMirrorError> {
        let mirrored = timeout(WAIT, self.mirror_aggregates()).await;
        mirrored.unwrap_or(Err(AggregateMirrorError::Late))
    }
}

/// Changes one provider with a generation check. Returns whether the provider exists.
async fn update_provider(
    placement: &PlacementClient,
    provider: ProviderUuid,
    change: &AggregateChange,
) -> Result<bool, PlacementError> {
    let mut tries = 1;
    loop {
        match change_once(placement, provider, change).await {
            Ok(()) => return Ok(true),
            Err(PlacementError::NotFound(_)) => return Ok(false),
            Err(PlacementError::Conflict(_)) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

async fn change_once(
    placement: &PlacementClient,
    provider: ProviderUuid,
    change: &AggregateChange,
) -> Result<(), PlacementError> {
    let was = placement.aggregates(provider).await?;
    let stay = was.value.difference(&change.leaves);
    let is: BTreeSet<AggregateUuid> = stay.chain(&change.joins).copied().collect();
    if is != was.value {
        let generation = was.generation;
        let written = placement.put_aggregates(provider, generation, &is);
        written.await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn providers(numbers: &[u128]) -> BTreeSet<ProviderUuid> {
        let uuids = numbers.iter().map(|number| Uuid::from_u128(*number));
        uuids.map(ProviderUuid::from).collect()
    }

    #[test]
    fn nodes_join_and_leave_and_foreign_providers_stay() {
        let aggregate = AggregateUuid::from(Uuid::from_u128(100));
        let members = AggregateMembers {
            wanted: providers(&[1, 2]),
            found: providers(&[2, 3, 9]),
        };
        let aggregates = BTreeMap::from([(aggregate, members)]);
        let changes = differences(&aggregates, &providers(&[1, 2, 3]));
        let own = BTreeSet::from([aggregate]);
        let joins = AggregateChange {
            joins: own.clone(),
            ..AggregateChange::default()
        };
        let leaves = AggregateChange {
            leaves: own,
            ..AggregateChange::default()
        };
        let expected: BTreeMap<_, _> = providers(&[1, 3])
            .into_iter()
            .zip([joins, leaves])
            .collect();
        assert_eq!(changes, expected);
    }
}
