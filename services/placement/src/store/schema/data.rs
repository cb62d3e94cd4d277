//! Data migrations that later revisions rely on: every provider has a root, and every consumer has a row. `berth
//! placement db sync` runs them once.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, Statement, Transaction};

use super::super::consumers::{NameTable, ensure};
use super::super::now;
use super::PlacementSchemaError;

/// The owner of allocations made before microversion 1.8 without a project and user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompleteConsumers {
    pub project_id: String,
    pub user_id: String,
}

const WITHOUT_ROOT: &str = "SELECT COUNT(*) FROM resource_providers WHERE root_provider_id IS NULL";
const WITHOUT_ROW: &str = "SELECT COUNT(DISTINCT a.consumer_id) FROM allocations a \
     LEFT JOIN consumers c ON a.consumer_id = c.uuid WHERE c.id IS NULL";

/// How many providers have no root.
pub(super) async fn without_root(tx: &mut Transaction) -> Result<u64, SqlError> {
    count(tx, WITHOUT_ROOT).await
}

/// The number of consumers without a row.
pub(super) async fn without_row(tx: &mut Transaction) -> Result<u64, SqlError> {
    count(tx, WITHOUT_ROW).await
}

async fn count(tx: &mut Transaction, sql: &'static str) -> Result<u64, SqlError> {
    let row = tx.row(Statement::new(sql)).await?;
    let count = row.map_or(Ok(0), |row| row.int(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Sets the root of every provider without one to its parent's root, or to itself if it has no parent.
///
/// OpenStack's own migration makes each its own root, even if it has a parent.
pub(super) async fn fill_roots(tx: &mut Transaction) -> Result<(), PlacementSchemaError> {
    let sql = "UPDATE resource_providers SET root_provider_id = id \
               WHERE root_provider_id IS NULL AND parent_provider_id IS NULL";
    tx.execute(Statement::new(sql)).await?;
    if without_root(tx).await? == 0 {
        return Ok(());
    }
    let sql = "SELECT id, parent_provider_id, root_provider_id, uuid FROM resource_providers";
    let rows = tx.rows(Statement::new(sql)).await?;
    let mut providers = BTreeMap::new();
    for row in &rows {
        let provider = RootlessProvider {
            parent: row.opt_int(1)?,
            root: row.opt_int(2)?,
            uuid: row.text(3)?,
        };
        providers.insert(row.int(0)?, provider);
    }
    for (root, ids) in roots(&providers)? {
        let sql = "UPDATE resource_providers SET root_provider_id = ? WHERE id IN";
        let head = Statement::new(sql).bind(root);
        tx.execute_in(&head, &ids).await?;
    }
    Ok(())
}

struct RootlessProvider {
    parent: Option<i64>,
    root: Option<i64>,
    uuid: String,
}

/// The missing roots: for each root the providers that lack it.
fn roots(
    providers: &BTreeMap<i64, RootlessProvider>,
) -> Result<BTreeMap<i64, Vec<i64>>, PlacementSchemaError> {
    let mut found: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut without = Vec::new();
    for (id, provider) in providers.iter().filter(|(_, it)| it.root.is_none()) {
        match root(providers, *id) {
            Some(root) => found.entry(root).or_default().push(*id),
            None => without.push(provider.uuid.clone()),
        }
    }
    match without.is_empty() {
        true => Ok(found),
        false => Err(PlacementSchemaError::NoRoot { providers: without }),
    }
}

/// The root of a provider; `None` if its ancestors form a cycle or one is missing.
fn root(providers: &BTreeMap<i64, RootlessProvider>, id: i64) -> Option<i64> {
    let mut at = id;
    let mut seen = BTreeSet::new();
    while seen.insert(at) {
        let provider = providers.get(&at)?;
        match (provider.root, provider.parent) {
            (Some(root), _) => return Some(root),
            (None, None) => return Some(at),
            (None, Some(parent)) => at = parent,
        }
    }
    None
}

/// Inserts rows for consumers that have allocations but no row.
pub(super) async fn fill_consumers(
    tx: &mut Transaction,
    owners: &IncompleteConsumers,
) -> Result<(), SqlError> {
    if without_row(tx).await? == 0 {
        return Ok(());
    }
    let project = one(tx, NameTable::Projects, &owners.project_id).await?;
    let user = one(tx, NameTable::Users, &owners.user_id).await?;
    let sql = "INSERT INTO consumers (created_at, uuid, project_id, user_id, generation) \
               SELECT ?, a.consumer_id, ?, ?, 0 FROM allocations a \
               LEFT JOIN consumers c ON a.consumer_id = c.uuid WHERE c.id IS NULL GROUP BY a.consumer_id";
    let statement = Statement::new(sql).bind(now()).bind(project).bind(user);
    tx.execute(statement).await?;
    Ok(())
}

async fn one(tx: &mut Transaction, registry: NameTable, name: &str) -> Result<i64, SqlError> {
    let ids = ensure(tx, registry, &BTreeSet::from([name.to_owned()])).await?;
    Ok(ids.into_values().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(parent: Option<i64>, root: Option<i64>) -> RootlessProvider {
        RootlessProvider {
            parent,
            root,
            uuid: format!("below {parent:?}"),
        }
    }

    #[test]
    fn a_provider_without_a_root_has_its_parents() {
        let providers = BTreeMap::from([
            (1, provider(None, Some(1))),
            (2, provider(Some(1), None)),
            (3, provider(Some(2), None)),
            (4, provider(None, None)),
            (5, provider(Some(4), None)),
        ]);
        let expected = BTreeMap::from([(1, vec![2, 3]), (4, vec![4, 5])]);
        assert_eq!(roots(&providers).unwrap(), expected);
    }

    #[test]
    fn a_ring_of_parents_and_a_lost_parent_have_none() {
        let providers = BTreeMap::from([
            (1, provider(Some(2), None)),
            (2, provider(Some(1), None)),
            (3, provider(Some(9), None)),
            (4, provider(None, None)),
        ]);
        let error = roots(&providers).unwrap_err();
        assert!(
            matches!(&error, PlacementSchemaError::NoRoot { providers } if providers.len() == 3),
            "{error}"
        );
    }
}
