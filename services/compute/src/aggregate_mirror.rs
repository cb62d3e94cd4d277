//! Host aggregates as Placement has them: the root provider of each node of a host is in the aggregates that the host is in, under the
//! same UUIDs, so that candidates of a zone, of a project or without isolated hosts can be asked for there.
//!
//! What is written here is the truth, and Placement follows: after each change of an aggregate, when the service begins, and now and
//! then, so that whatever came between is mended within [`ComputeOptions::mirror_interval`]. Aggregates of providers that are no host
//! aggregate's are somebody else's and stay.
//!
//! [`ComputeOptions::mirror_interval`]: crate::ComputeOptions::mirror_interval

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_client::{PlacementClient, PlacementError};
use berth_hosts::{AggregateError, HostError};
use berth_model::{AggregateUuid, ProviderUuid};
use tokio::time::timeout;

use crate::compute::Compute;

/// How often a provider that others change at the same time is tried.
const TRIES: u32 = 4;

/// How long a request that changed an aggregate waits for Placement; what is not done then is done later.
const WAIT: Duration = Duration::from_secs(5);

/// Placement does not follow.
#[derive(Debug, thiserror::Error)]
pub enum AggregateMirrorError {
    /// The aggregates cannot be read.
    #[error(transparent)]
    Aggregates(#[from] AggregateError),
    /// The hosts cannot be read.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// Placement did not answer as hoped.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// It took too long.
    #[error("Placement did not answer within {WAIT:?}")]
    Late,
}

/// What is to be changed of one provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Change {
    joins: BTreeSet<AggregateUuid>,
    leaves: BTreeSet<AggregateUuid>,
}

/// Who is in an aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Members {
    /// Those who should be.
    wanted: BTreeSet<ProviderUuid>,
    found: BTreeSet<ProviderUuid>,
}

/// What differs, provider by provider; of those that are no node's nothing.
fn differences(
    aggregates: &BTreeMap<AggregateUuid, Members>,
    nodes: &BTreeSet<ProviderUuid>,
) -> BTreeMap<ProviderUuid, Change> {
    let mut changes: BTreeMap<ProviderUuid, Change> = BTreeMap::new();
    for (aggregate, members) in aggregates {
        for provider in members.wanted.difference(&members.found) {
            let change = changes.entry(*provider).or_default();
            change.joins.insert(*aggregate);
        }
        let strangers = members.found.difference(&members.wanted);
        for provider in strangers.filter(|it| nodes.contains(it)) {
            let change = changes.entry(*provider).or_default();
            change.leaves.insert(*aggregate);
        }
    }
    changes
}

impl Compute {
    /// Brings Placement into step; how many providers were changed. A node whose provider is not there yet is left for later.
    ///
    /// # Errors
    /// A database or Placement does not answer. What was done stays done, and the rest is done by the next call.
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
            let members = Members {
                wanted: hosts.flatten().copied().collect(),
                found: placement.providers_in_aggregate(uuid).await?,
            };
            aggregates.insert(uuid, members);
        }
        let nodes = nodes.into_values().flatten().collect();
        let mut changed = 0;
        for (provider, change) in differences(&aggregates, &nodes) {
            if settle(placement, provider, &change).await? {
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// The same for a request, which does not wait for ever.
    pub(crate) async fn mirror_in_time(&self) -> Result<usize, AggregateMirrorError> {
        let mirrored = timeout(WAIT, self.mirror_aggregates()).await;
        mirrored.unwrap_or(Err(AggregateMirrorError::Late))
    }
}

/// Changes one provider, by its generation; whether it is there.
async fn settle(
    placement: &PlacementClient,
    provider: ProviderUuid,
    change: &Change,
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
    change: &Change,
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
    fn nodes_join_and_leave_and_strangers_stay() {
        let aggregate = AggregateUuid::from(Uuid::from_u128(100));
        let members = Members {
            wanted: providers(&[1, 2]),
            found: providers(&[2, 3, 9]),
        };
        let aggregates = BTreeMap::from([(aggregate, members)]);
        let changes = differences(&aggregates, &providers(&[1, 2, 3]));
        let own = BTreeSet::from([aggregate]);
        let joins = Change {
            joins: own.clone(),
            ..Change::default()
        };
        let leaves = Change {
            leaves: own,
            ..Change::default()
        };
        let expected: BTreeMap<_, _> = providers(&[1, 3])
            .into_iter()
            .zip([joins, leaves])
            .collect();
        assert_eq!(changes, expected);
    }
}
