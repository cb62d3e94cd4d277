//! The position of a provider in its tree: its parent and root, and moving it with all its descendants.

use std::collections::BTreeSet;

use berth_store::{Dialect, SqlError, Statement, Transaction};

use super::ProviderError;
use crate::store::now;

const PARENT_MISSING: &str = "parent provider UUID does not exist.";

/// The ids of a provider, its root and its parent.
pub(super) struct TreePosition {
    pub(super) id: i64,
    pub(super) root: i64,
    parent: Option<i64>,
}

/// Trees that are locked until the transaction ends.
pub(super) struct HeldTrees(BTreeSet<i64>);

impl HeldTrees {
    /// Locks the existing trees of these providers, always in the same order, so that two
    /// concurrent moves cannot deadlock.
    ///
    /// It updates the roots: PostgreSQL then refuses a transaction that waited with an older snapshot, and its retry
    /// sees the new state. Roots are locked before any other row.
    pub(super) async fn of(tx: &mut Transaction, uuids: &[&str]) -> Result<Self, SqlError> {
        let mut roots = BTreeSet::new();
        // On SQLite a transaction that writes has the database for itself.
        if tx.dialect() != Dialect::Sqlite {
            let sql =
                "SELECT COALESCE(root_provider_id, id) FROM resource_providers WHERE uuid = ?";
            for uuid in uuids {
                if let Some(row) = tx.row(Statement::new(sql).bind(*uuid)).await? {
                    roots.insert(row.int(0)?);
                }
            }
            let sql = "UPDATE resource_providers SET generation = generation WHERE id = ?";
            for root in &roots {
                tx.execute(Statement::new(sql).bind(*root)).await?;
            }
        }
        Ok(Self(roots))
    }

    /// The position of a provider in a locked tree.
    async fn place(
        &self,
        tx: &mut Transaction,
        uuid: &str,
    ) -> Result<Option<TreePosition>, ProviderError> {
        // A locking read returns the current row on MariaDB.
        let sql = format!(
            "SELECT id, root_provider_id, parent_provider_id FROM resource_providers WHERE uuid = ?{}",
            tx.dialect().for_update()
        );
        let Some(row) = tx.row(Statement::recurring(sql).bind(uuid)).await? else {
            return Ok(None);
        };
        let id = row.int(0)?;
        let place = TreePosition {
            id,
            root: row.opt_int(1)?.unwrap_or(id),
            parent: row.opt_int(2)?,
        };
        if tx.dialect() != Dialect::Sqlite && !self.0.contains(&place.root) {
            return Err(ProviderError::Moved);
        }
        Ok(Some(place))
    }

    /// The position of a parent that a caller names.
    pub(super) async fn parent(
        &self,
        tx: &mut Transaction,
        uuid: &str,
    ) -> Result<TreePosition, ProviderError> {
        let place = self.place(tx, uuid).await?;
        place.ok_or(ProviderError::Create(PARENT_MISSING))
    }
}

/// Whether a provider with a parent may get another one, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReparentingRule {
    Allowed,
    Refused,
}

/// Moves a provider with all its descendants below another parent, or makes it a root. Both trees are locked.
///
/// Errors: Unknown provider, a move that the version does not allow, or a cycle.
pub(super) async fn set_parent(
    tx: &mut Transaction,
    held: &HeldTrees,
    uuid: &str,
    parent: Option<&str>,
    reparenting: ReparentingRule,
) -> Result<(), ProviderError> {
    let mine = held
        .place(tx, uuid)
        .await?
        .ok_or_else(|| ProviderError::NotFound(uuid.to_owned()))?;
    let fixed = reparenting == ReparentingRule::Refused && mine.parent.is_some();
    let Some(parent) = parent else {
        return match mine.parent {
            None => Ok(()),
            Some(_) if fixed => Err(ProviderError::Update(
                "un-parenting a provider is not currently allowed.",
            )),
            Some(_) => move_subtree(tx, &mine, None, mine.id).await,
        };
    };
    let theirs = held.parent(tx, parent).await?;
    if fixed && mine.parent != Some(theirs.id) {
        return Err(ProviderError::Update(
            "re-parenting a provider is not currently allowed.",
        ));
    }
    if subtree(tx, &mine).await?.contains(&theirs.id) {
        return Err(ProviderError::Update(
            "creating loop in the provider tree is not allowed.",
        ));
    }
    move_subtree(tx, &mine, Some(theirs.id), theirs.root).await
}

/// The provider and its descendants.
async fn subtree(tx: &mut Transaction, top: &TreePosition) -> Result<BTreeSet<i64>, SqlError> {
    let sql = format!(
        "SELECT id, parent_provider_id FROM resource_providers WHERE root_provider_id = ? ORDER BY id{}",
        tx.dialect().for_update()
    );
    let mut edges = Vec::new();
    for row in tx.rows(Statement::recurring(sql).bind(top.root)).await? {
        edges.push((row.int(0)?, row.opt_int(1)?));
    }
    let mut found = BTreeSet::from([top.id]);
    let mut newest = vec![top.id];
    while let Some(parent) = newest.pop() {
        for (id, _) in edges.iter().filter(|(_, of)| *of == Some(parent)) {
            if found.insert(*id) {
                newest.push(*id);
            }
        }
    }
    Ok(found)
}

async fn move_subtree(
    tx: &mut Transaction,
    top: &TreePosition,
    parent: Option<i64>,
    root: i64,
) -> Result<(), ProviderError> {
    let ids: Vec<i64> = subtree(tx, top).await?.into_iter().collect();
    let sql = "UPDATE resource_providers SET parent_provider_id = ? WHERE id = ?";
    tx.execute(Statement::new(sql).bind(parent).bind(top.id))
        .await?;
    let head = Statement::new(
        "UPDATE resource_providers SET updated_at = ?, root_provider_id = ? WHERE id IN",
    );
    tx.execute_in(&head.bind(now()).bind(root), &ids).await?;
    Ok(())
}
