//! All aggregates, indexed by host, in the form that filters and weighers use.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_scheduler::host_state::{Aggregate, Aggregates};
use berth_store::Transaction;

use super::aggregate::HostAggregate;
use super::rows;
use crate::store::HostTableError;

/// All aggregates of one revision, indexed by host.
#[derive(Debug, Default)]
pub(crate) struct AggregateIndex {
    revision: i64,
    all: Vec<Arc<Aggregate>>,
    by_host: HashMap<String, Aggregates>,
}

impl AggregateIndex {
    /// Reads all aggregates. The same transaction must have read `revision`.
    pub(crate) async fn read(tx: &mut Transaction, revision: i64) -> Result<Self, HostTableError> {
        Ok(Self::new(rows::list(tx).await?, revision))
    }

    fn new(all: Vec<HostAggregate>, revision: i64) -> Self {
        let mut by_id = BTreeMap::new();
        let mut members: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for aggregate in all {
            for host in aggregate.hosts {
                members.entry(host).or_default().push(aggregate.id);
            }
            let read = Aggregate {
                uuid: Some(aggregate.uuid.to_string()),
                name: aggregate.name,
                metadata: aggregate.metadata,
            };
            by_id.insert(aggregate.id, Arc::new(read));
        }
        // Hosts in the same aggregates share one value.
        let mut shared: HashMap<Vec<i64>, Aggregates> = HashMap::new();
        let by_host = members.into_iter().map(|(host, ids)| {
            let these = || {
                let found = ids.iter().filter_map(|id| by_id.get(id));
                Aggregates::new(found.map(Arc::clone).collect())
            };
            let aggregates = match shared.get(&ids) {
                Some(known) => known.clone(),
                None => these(),
            };
            shared.insert(ids, aggregates.clone());
            (host, aggregates)
        });
        Self {
            revision,
            by_host: by_host.collect(),
            all: by_id.values().map(Arc::clone).collect(),
        }
    }

    /// The revision: a new value after each change, never reused.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// All aggregates, sorted by ID.
    pub(crate) fn all(&self) -> &[Arc<Aggregate>] {
        &self.all
    }

    /// The aggregates of a host, sorted by ID.
    pub(crate) fn of_host(&self, host: &str) -> Aggregates {
        self.by_host.get(host).cloned().unwrap_or_default()
    }
}
