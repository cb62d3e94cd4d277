//! The aggregates by host, as filters and weighers read them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_scheduler::host_state::{Aggregate, Aggregates};
use berth_store::Transaction;

use super::{HostAggregate, rows};
use crate::store::TableError;

/// All aggregates as of one count of their changes.
#[derive(Debug, Default)]
pub(crate) struct HostAggregates {
    changes: i64,
    all: Vec<Arc<Aggregate>>,
    by_host: HashMap<String, Aggregates>,
}

impl HostAggregates {
    /// Reads them all, as of this count of changes, which the same transaction has read.
    pub(crate) async fn read(tx: &mut Transaction, changes: i64) -> Result<Self, TableError> {
        Ok(Self::new(rows::all(tx).await?, changes))
    }

    fn new(all: Vec<HostAggregate>, changes: i64) -> Self {
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
        // Hosts of the same aggregates share one value.
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
            changes,
            by_host: by_host.collect(),
            all: by_id.values().map(Arc::clone).collect(),
        }
    }

    /// The count of changes that they are of.
    pub(crate) fn changes(&self) -> i64 {
        self.changes
    }

    /// All, in the order of their numbers.
    pub(crate) fn all(&self) -> &[Arc<Aggregate>] {
        &self.all
    }

    /// Those of a host, in the order of their numbers.
    pub(crate) fn of_host(&self, host: &str) -> Aggregates {
        self.by_host.get(host).cloned().unwrap_or_default()
    }
}
