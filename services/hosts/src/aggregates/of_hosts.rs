//! The aggregates by host, as filters and weighers read them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_scheduler::host_state::{Aggregate, Aggregates};
use berth_store::{Statement, Transaction};

use crate::store::{TableError, foreign};

/// All aggregates as of one count of their changes.
#[derive(Debug, Default)]
pub(crate) struct HostAggregates {
    changes: i64,
    by_host: HashMap<String, Aggregates>,
}

impl HostAggregates {
    /// Reads them all, as of this count of changes, which the same transaction has read.
    pub(crate) async fn read(tx: &mut Transaction, changes: i64) -> Result<Self, TableError> {
        let mut by_id = HashMap::new();
        let sql = "SELECT id, uuid, name, metadata FROM host_aggregates";
        for row in tx.rows(Statement::new(sql)).await? {
            let aggregate = Aggregate {
                uuid: Some(row.text(1)?),
                name: row.text(2)?,
                metadata: metadata(&row.text(3)?)?,
            };
            by_id.insert(row.int(0)?, Arc::new(aggregate));
        }
        let sql =
            "SELECT host, aggregate_id FROM host_aggregate_members ORDER BY host, aggregate_id";
        let mut members: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for row in tx.rows(Statement::new(sql)).await? {
            members.entry(row.text(0)?).or_default().push(row.int(1)?);
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
        Ok(Self {
            changes,
            by_host: by_host.collect(),
        })
    }

    /// The count of changes that they are of.
    pub(crate) fn changes(&self) -> i64 {
        self.changes
    }

    /// Those of a host, in the order of their numbers.
    pub(crate) fn of_host(&self, host: &str) -> Aggregates {
        self.by_host.get(host).cloned().unwrap_or_default()
    }
}

/// The keys and values of a row.
pub(crate) fn metadata(text: &str) -> Result<BTreeMap<String, String>, TableError> {
    serde_json::from_str(text).map_err(|_| foreign(text, "host_aggregates", "metadata"))
}
