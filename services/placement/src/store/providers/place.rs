//! The place of a provider in its tree: its parent and its root, and how it comes to another with all that is below it.

use std::collections::BTreeSet;

use berth_store::{Dialect, SqlError, Statement, Transaction};

use super::ProviderError;
use crate::store::now;

const PARENT_MISSING: &str = "parent provider UUID does not exist.";

/// Where a provider is.
pub(super) struct Place {
    pub(super) id: i64,
    pub(super) root: i64,
    parent: Option<i64>,
}

/// Trees that stay as they are until the transaction ends: nothing comes into them, goes from them or moves in them.
pub(super) struct HeldTrees(BTreeSet<i64>);

impl HeldTrees {
    /// Holds the trees of these providers, as far as they are there, always in one order: of two that would come into each other
    /// at once, one is refused.
    ///
    /// By a change of their roots: who waited for it with an older state of the tables before him is refused by PostgreSQL, and
    /// sees on its next run what was written. And before any other row is locked: whoever changes a tree takes its root first.
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

    /// Where a provider is whose tree is held.
    async fn place(
        &self,
        tx: &mut Transaction,
        uuid: &str,
    ) -> Result<Option<Place>, ProviderError> {
        // As it is now, which MariaDB tells to those who lock.
        let sql = format!(
            "SELECT id, root_provider_id, parent_provider_id FROM resource_providers WHERE uuid = ?{}",
            tx.dialect().for_update()
        );
        let Some(row) = tx.row(Statement::recurring(sql).bind(uuid)).await? else {
            return Ok(None);
        };
        let id = row.int(0)?;
        let place = Place {
            id,
            root: row.opt_int(1)?.unwrap_or(id),
            parent: row.opt_int(2)?,
        };
        if tx.dialect() != Dialect::Sqlite && !self.0.contains(&place.root) {
            return Err(ProviderError::Moved);
        }
        Ok(Some(place))
    }

    /// Where a parent is that a caller names.
    pub(super) async fn parent(
        &self,
        tx: &mut Transaction,
        uuid: &str,
    ) -> Result<Place, ProviderError> {
        let place = self.place(tx, uuid).await?;
        place.ok_or(ProviderError::Create(PARENT_MISSING))
    }
}

/// Whether a provider that has a parent may get another or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reparenting {
    Allowed,
    Refused,
}

/// Gives a provider another parent or none, and with it all that is below it. The trees of both are held.
///
/// # Errors
/// There is no such provider, the caller may not, or the provider would be below itself.
pub(super) async fn set_parent(
    tx: &mut Transaction,
    held: &HeldTrees,
    uuid: &str,
    parent: Option<&str>,
    reparenting: Reparenting,
) -> Result<(), ProviderError> {
    let mine = held
        .place(tx, uuid)
        .await?
        .ok_or_else(|| ProviderError::NotFound(uuid.to_owned()))?;
    let fixed = reparenting == Reparenting::Refused && mine.parent.is_some();
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

/// The provider and all below it.
async fn subtree(tx: &mut Transaction, top: &Place) -> Result<BTreeSet<i64>, SqlError> {
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
    top: &Place,
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
