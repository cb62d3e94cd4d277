//! Rows as later revisions promise them: every provider with the root of its tree, everybody who has allocations with a row of
//! its own. What is here is done once, by `berth placement db sync`.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, Statement, Transaction};

use super::super::consumers::{Registry, ensure};
use super::super::now;
use super::SchemaError;

/// Whose the allocations are that were made without a project and a user, before microversion 1.8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompleteConsumers {
    /// The project's id, in Keystone's words.
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

/// How many of those who have allocations have no row.
pub(super) async fn without_row(tx: &mut Transaction) -> Result<u64, SqlError> {
    count(tx, WITHOUT_ROW).await
}

async fn count(tx: &mut Transaction, sql: &'static str) -> Result<u64, SqlError> {
    let row = tx.row(Statement::new(sql)).await?;
    let count = row.map_or(Ok(0), |row| row.int(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// Gives every provider without a root that of its parent, or itself where it has none.
///
/// OpenStack's own migration makes each its own root, its parent's tree or not.
pub(super) async fn fill_roots(tx: &mut Transaction) -> Result<(), SchemaError> {
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
        let provider = Provider {
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

struct Provider {
    parent: Option<i64>,
    root: Option<i64>,
    uuid: String,
}

/// For each root the providers that lack it.
fn roots(providers: &BTreeMap<i64, Provider>) -> Result<BTreeMap<i64, Vec<i64>>, SchemaError> {
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
        false => Err(SchemaError::NoRoot { providers: without }),
    }
}

/// None where its parents are a ring, or one of them is not there.
fn root(providers: &BTreeMap<i64, Provider>, id: i64) -> Option<i64> {
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

/// Makes the rows of those who have allocations and none.
pub(super) async fn fill_consumers(
    tx: &mut Transaction,
    owners: &IncompleteConsumers,
) -> Result<(), SqlError> {
    if without_row(tx).await? == 0 {
        return Ok(());
    }
    let project = one(tx, Registry::Projects, &owners.project_id).await?;
    let user = one(tx, Registry::Users, &owners.user_id).await?;
    let sql = "INSERT INTO consumers (created_at, uuid, project_id, user_id, generation) \
               SELECT ?, a.consumer_id, ?, ?, 0 FROM allocations a \
               LEFT JOIN consumers c ON a.consumer_id = c.uuid WHERE c.id IS NULL GROUP BY a.consumer_id";
    let statement = Statement::new(sql).bind(now()).bind(project).bind(user);
    tx.execute(statement).await?;
    Ok(())
}

async fn one(tx: &mut Transaction, registry: Registry, name: &str) -> Result<i64, SqlError> {
    let ids = ensure(tx, registry, &BTreeSet::from([name.to_owned()])).await?;
    Ok(ids.into_values().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(parent: Option<i64>, root: Option<i64>) -> Provider {
        Provider {
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
            matches!(&error, SchemaError::NoRoot { providers } if providers.len() == 3),
            "{error}"
        );
    }
}
