//! Resolves the names in a candidates request to row ids, for a search that reads only what it needs.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, Statement, Transaction};
use uuid::Uuid;

use super::trees;
use crate::candidates::snapshot::{AggregateKey, RootId, SHARES, TraitId};
use crate::candidates::{Meanings, ParsedCandidatesQuery, SnapshotNames};

/// The resolved names of one request.
pub(crate) struct ResolvedNames {
    names: SnapshotNames,
    roots: BTreeMap<String, RootId>,
    /// The same UUID may be stored in several notations.
    aggregates: BTreeMap<AggregateKey, Vec<AggregateKey>>,
    /// The trait of sharing providers, if any provider has it.
    pub(crate) sharing: Option<TraitId>,
}

impl ResolvedNames {
    pub(crate) async fn read(
        tx: &mut Transaction,
        query: &ParsedCandidatesQuery,
    ) -> Result<Self, SqlError> {
        let names = trees::names(tx).await?;
        let groups = || query.groups.values();
        let in_trees: BTreeSet<&str> = groups().filter_map(|it| it.in_tree.as_deref()).collect();
        let sets = groups().flat_map(|group| {
            let demanded = group.member_of.iter();
            demanded.chain(std::iter::once(&group.forbidden_aggregates))
        });
        let uuids: BTreeSet<Uuid> = sets
            .flatten()
            .filter_map(|uuid| Uuid::parse_str(uuid).ok())
            .collect();
        Ok(Self {
            roots: roots(tx, in_trees).await?,
            aggregates: aggregates(tx, uuids).await?,
            sharing: match names.trait_id(SHARES) {
                Some(shares) => is_held(tx, shares).await?.then_some(shares),
                None => None,
            },
            names,
        })
    }

    pub(crate) fn into_names(self) -> SnapshotNames {
        self.names
    }
}

impl Meanings for ResolvedNames {
    fn names(&self) -> &SnapshotNames {
        &self.names
    }

    fn root_of_uuid(&self, uuid: &str) -> Option<RootId> {
        self.roots.get(uuid).copied()
    }

    fn aggregates(&self, uuids: &BTreeSet<String>) -> Vec<AggregateKey> {
        let uuids = uuids.iter().filter_map(|uuid| Uuid::parse_str(uuid).ok());
        uuids
            .filter_map(|uuid| self.aggregates.get(&uuid.as_u128()))
            .flatten()
            .copied()
            .collect()
    }
}

async fn roots(
    tx: &mut Transaction,
    uuids: BTreeSet<&str>,
) -> Result<BTreeMap<String, RootId>, SqlError> {
    let select = Statement::new(
        "SELECT uuid, root_provider_id FROM resource_providers \
         WHERE root_provider_id IS NOT NULL AND uuid IN",
    );
    let uuids: Vec<&str> = uuids.into_iter().collect();
    let rows = tx.rows_in(&select, &uuids, "").await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// Aggregates are few and their UUIDs have different notations, so no index is used.
async fn aggregates(
    tx: &mut Transaction,
    uuids: BTreeSet<Uuid>,
) -> Result<BTreeMap<AggregateKey, Vec<AggregateKey>>, SqlError> {
    let select = Statement::new(
        "SELECT id, uuid FROM placement_aggregates WHERE LOWER(REPLACE(uuid, '-', '')) IN",
    );
    let texts: Vec<String> = uuids.iter().map(|uuid| uuid.simple().to_string()).collect();
    let mut ids: BTreeMap<AggregateKey, Vec<AggregateKey>> = BTreeMap::new();
    for row in tx.rows_in(&select, &texts, "").await? {
        if let Some(uuid) = trees::uuid_at(&row, 1)? {
            let id = trees::aggregate_of_row(row.int(0)?);
            ids.entry(uuid).or_default().push(id);
        }
    }
    Ok(ids)
}

async fn is_held(tx: &mut Transaction, id: TraitId) -> Result<bool, SqlError> {
    let sql = "SELECT trait_id FROM resource_provider_traits WHERE trait_id = ? LIMIT 1";
    Ok(tx.row(Statement::new(sql).bind(id)).await?.is_some())
}
