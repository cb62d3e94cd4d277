//! Loads whole trees for the candidates search: all of them, the touched ones, or the ones that could serve a request.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Row, SqlError, Statement, Transaction, Value};
use uuid::Uuid;

use super::invalidation::TouchedTrees;
use super::inventories;
use crate::candidates::snapshot::AggregateKey;
use crate::candidates::snapshot::RootId;
use crate::candidates::{Member, Room, Snapshot, SnapshotNames, SnapshotTree};
use crate::ledger::ProviderId;

pub(crate) async fn all(tx: &mut Transaction) -> Result<Snapshot, SqlError> {
    let names = names(tx).await?;
    let trees = trees(tx, TreeSelection::All, AggregatesBy::Uuid).await?;
    Ok(Snapshot::new(names, trees))
}

/// The trees with these roots, as far as they are there. Aggregates are known by their row ids.
pub(crate) async fn of_roots(
    tx: &mut Transaction,
    roots: &[RootId],
) -> Result<Vec<SnapshotTree>, SqlError> {
    match roots {
        [] => Ok(Vec::new()),
        roots => trees(tx, TreeSelection::Of(roots), AggregatesBy::RowId).await,
    }
}

/// The new state of touched trees.
pub(crate) struct TreeChanges {
    names: Option<SnapshotNames>,
    /// The old and new trees of touched providers.
    roots: BTreeSet<RootId>,
    /// The trees that still exist.
    trees: Vec<SnapshotTree>,
}

/// Loads what was touched since the snapshot was read.
pub(crate) async fn changes(
    tx: &mut Transaction,
    snapshot: &Snapshot,
    touched: &TouchedTrees,
) -> Result<TreeChanges, SqlError> {
    let names = match touched.names {
        true => Some(names(tx).await?),
        false => None,
    };
    let mut roots: BTreeSet<RootId> = BTreeSet::new();
    // The old trees.
    roots.extend(touched.ids.iter().filter_map(|id| snapshot.root_of(*id)));
    let known = touched.uuids.iter();
    roots.extend(known.filter_map(|uuid| snapshot.root_of_uuid(uuid)));
    // The new trees.
    let ids: Vec<ProviderId> = touched.ids.iter().copied().collect();
    let uuids: Vec<&str> = touched.uuids.iter().map(String::as_str).collect();
    let by_id =
        "SELECT DISTINCT COALESCE(root_provider_id, id) FROM resource_providers WHERE id IN";
    let by_uuid =
        "SELECT DISTINCT COALESCE(root_provider_id, id) FROM resource_providers WHERE uuid IN";
    let mut rows = tx.rows_in(&Statement::new(by_id), &ids, "").await?;
    rows.extend(tx.rows_in(&Statement::new(by_uuid), &uuids, "").await?);
    for row in &rows {
        roots.insert(row.int(0)?);
    }
    let keys: Vec<RootId> = roots.iter().copied().collect();
    let trees = match keys.as_slice() {
        [] => Vec::new(),
        keys => trees(tx, TreeSelection::Of(keys), AggregatesBy::Uuid).await?,
    };
    Ok(TreeChanges {
        names,
        roots,
        trees,
    })
}

impl TreeChanges {
    /// Brings the snapshot up to date.
    pub(crate) fn apply(self, snapshot: &mut Snapshot) {
        if let Some(names) = self.names {
            snapshot.rename(names);
        }
        // Remove all before inserting any: a provider may have moved between them.
        for root in self.roots {
            snapshot.remove(root);
        }
        for tree in self.trees {
            snapshot.insert(tree);
        }
    }
}

/// All resource classes and traits.
pub(crate) async fn names(tx: &mut Transaction) -> Result<SnapshotNames, SqlError> {
    let pair = |row: &Row| Ok((row.int(0)?, row.text(1)?));
    let classes = tx
        .rows(Statement::new("SELECT id, name FROM resource_classes"))
        .await?;
    let traits = tx
        .rows(Statement::new("SELECT id, name FROM traits"))
        .await?;
    Ok(SnapshotNames::new(
        classes.iter().map(pair).collect::<Result<_, SqlError>>()?,
        traits.iter().map(pair).collect::<Result<_, SqlError>>()?,
    ))
}

/// How aggregates are identified in loaded trees: by UUID, which is stable, or by row id.
#[derive(Clone, Copy)]
enum AggregatesBy {
    Uuid,
    RowId,
}

/// The trees to load.
#[derive(Clone, Copy)]
enum TreeSelection<'a> {
    All,
    Of(&'a [RootId]),
}

impl TreeSelection<'_> {
    /// The rows of `select` with a provider in one of the trees; `column` is the provider's row id.
    async fn rows(
        self,
        tx: &mut Transaction,
        select: &str,
        column: &str,
        tail: &str,
    ) -> Result<Vec<Row>, SqlError> {
        match self {
            Self::All => {
                let sql = format!("{select} {tail}");
                tx.rows(Statement::recurring(sql)).await
            }
            Self::Of(roots) => {
                let sql = format!(
                    "{select} WHERE {column} IN (SELECT id FROM resource_providers WHERE \
                     root_provider_id IN"
                );
                let keys: Vec<Value> = roots.iter().map(|root| Value::from(*root)).collect();
                let tail = format!(") {tail}");
                tx.rows_in(&Statement::recurring(sql), &keys, &tail).await
            }
        }
    }
}

async fn trees(
    tx: &mut Transaction,
    which: TreeSelection<'_>,
    by: AggregatesBy,
) -> Result<Vec<SnapshotTree>, SqlError> {
    let mut members = members(tx, which).await?;
    rooms(tx, which, &mut members).await?;
    traits(tx, which, &mut members).await?;
    aggregates(tx, which, by, &mut members).await?;
    let mut by_root: BTreeMap<RootId, Vec<ReadTrees>> = BTreeMap::new();
    for read in members.into_values() {
        by_root.entry(read.root).or_default().push(read);
    }
    let trees = by_root
        .into_iter()
        .filter_map(|(root, reads)| tree(root, reads));
    Ok(trees.collect())
}

/// A provider with its places as row ids.
struct ReadTrees {
    root: RootId,
    parent: Option<ProviderId>,
    member: Member,
}

fn tree(root: RootId, reads: Vec<ReadTrees>) -> Option<SnapshotTree> {
    let place_of: BTreeMap<ProviderId, usize> = reads
        .iter()
        .enumerate()
        .map(|(place, read)| (read.member.id, place))
        .collect();
    let members = reads.into_iter().map(|read| Member {
        parent: read.parent.and_then(|id| place_of.get(&id).copied()),
        ..read.member
    });
    SnapshotTree::new(root, members.collect())
}

async fn members(
    tx: &mut Transaction,
    which: TreeSelection<'_>,
) -> Result<BTreeMap<ProviderId, ReadTrees>, SqlError> {
    let select = "SELECT id, uuid, root_provider_id, parent_provider_id FROM resource_providers";
    let mut members = BTreeMap::new();
    for row in which.rows(tx, select, "id", "").await? {
        // A provider without a root is in no tree and in no response of the API.
        let Some(root) = row.opt_int(2)? else {
            continue;
        };
        let read = ReadTrees {
            root,
            parent: row.opt_int(3)?,
            member: Member {
                id: row.int(0)?,
                uuid: row.text(1)?,
                parent: None,
                rooms: Vec::new(),
                traits: Vec::new(),
                aggregates: Vec::new(),
            },
        };
        members.insert(read.member.id, read);
    }
    Ok(members)
}

async fn rooms(
    tx: &mut Transaction,
    which: TreeSelection<'_>,
    members: &mut BTreeMap<ProviderId, ReadTrees>,
) -> Result<(), SqlError> {
    let select = format!(
        "SELECT i.resource_provider_id, i.resource_class_id, \
         COALESCE((SELECT SUM(a.used) FROM allocations a \
         WHERE a.resource_provider_id = i.resource_provider_id \
         AND a.resource_class_id = i.resource_class_id), 0), {} FROM inventories i",
        inventories::columns(tx.dialect())
    );
    let order = "ORDER BY i.resource_provider_id, i.resource_class_id";
    for row in which
        .rows(tx, &select, "i.resource_provider_id", order)
        .await?
    {
        if let Some(read) = members.get_mut(&row.int(0)?) {
            read.member.rooms.push(Room {
                class: row.int(1)?,
                used: row.int(2)?,
                inventory: inventories::inventory_at(&row, 3)?,
            });
        }
    }
    Ok(())
}

async fn traits(
    tx: &mut Transaction,
    which: TreeSelection<'_>,
    members: &mut BTreeMap<ProviderId, ReadTrees>,
) -> Result<(), SqlError> {
    let select = "SELECT resource_provider_id, trait_id FROM resource_provider_traits";
    for row in which.rows(tx, select, "resource_provider_id", "").await? {
        if let Some(read) = members.get_mut(&row.int(0)?) {
            read.member.traits.push(row.int(1)?);
        }
    }
    for read in members.values_mut() {
        read.member.traits.sort_unstable();
    }
    Ok(())
}

async fn aggregates(
    tx: &mut Transaction,
    which: TreeSelection<'_>,
    by: AggregatesBy,
    members: &mut BTreeMap<ProviderId, ReadTrees>,
) -> Result<(), SqlError> {
    let select = match by {
        AggregatesBy::Uuid => {
            "SELECT m.resource_provider_id, g.uuid FROM resource_provider_aggregates m \
             JOIN placement_aggregates g ON g.id = m.aggregate_id"
        }
        AggregatesBy::RowId => {
            "SELECT m.resource_provider_id, m.aggregate_id FROM resource_provider_aggregates m"
        }
    };
    for row in which.rows(tx, select, "m.resource_provider_id", "").await? {
        let aggregate = match by {
            AggregatesBy::Uuid => uuid_at(&row, 1)?,
            AggregatesBy::RowId => Some(aggregate_of_row(row.int(1)?)),
        };
        if let (Some(read), Some(aggregate)) = (members.get_mut(&row.int(0)?), aggregate) {
            read.member.aggregates.push(aggregate);
        }
    }
    for read in members.values_mut() {
        read.member.aggregates.sort_unstable();
    }
    Ok(())
}

/// An aggregate as [`of_roots`] identifies it.
pub(crate) fn aggregate_of_row(id: i64) -> AggregateKey {
    id.unsigned_abs().into()
}

/// The UUID in a column, in any notation; `None` if it is not a UUID.
pub(crate) fn uuid_at(row: &Row, column: usize) -> Result<Option<AggregateKey>, SqlError> {
    let text = row.opt_text(column)?;
    let uuid = text.and_then(|text| Uuid::parse_str(&text).ok());
    Ok(uuid.map(|uuid| uuid.as_u128()))
}
