//! Consumers and whom they belong to: projects, users, types.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Dialect, SqlError, Statement, Transaction, Value};

use super::now;

/// A consumer's own row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsumerRow {
    pub(crate) id: i64,
    pub(crate) generation: i64,
    pub(crate) owner: Owner,
}

/// Whom a consumer belongs to, as row ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) project: i64,
    pub(crate) user: i64,
    pub(crate) consumer_type: Option<i64>,
}

/// Those of the uuids that are consumers.
pub(crate) async fn find(
    tx: &mut Transaction,
    uuids: &[String],
) -> Result<BTreeMap<String, ConsumerRow>, SqlError> {
    let columns = "uuid, id, generation, project_id, user_id, consumer_type_id";
    let packed = tx.dialect().packed(columns);
    let head = Statement::recurring(format!("SELECT {packed} FROM consumers WHERE uuid IN"));
    let rows = tx.rows_in(&head, uuids, "").await?;
    let mut found = BTreeMap::new();
    for row in &rows {
        for (uuid, id, generation, project, user, consumer_type) in row.unpack(0)? {
            let owner = Owner {
                project,
                user,
                consumer_type,
            };
            let consumer = ConsumerRow {
                id,
                generation,
                owner,
            };
            found.insert(uuid, consumer);
        }
    }
    Ok(found)
}

/// A table of names that are made when they are first used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Registry {
    Projects,
    Users,
    ConsumerTypes,
}

/// Holds a consumer until the transaction ends: who writes what it has changes its row first. The first statement of a
/// transaction, so that what is read after it is no older.
pub(crate) async fn hold(tx: &mut Transaction, uuid: &str) -> Result<(), SqlError> {
    let end = tx.dialect().for_update();
    if !end.is_empty() {
        let sql = format!("SELECT id FROM consumers WHERE uuid = ?{end}");
        tx.row(Statement::recurring(sql).bind(uuid)).await?;
    }
    Ok(())
}

/// The ids of all names; those not known yet are added.
pub(crate) async fn ensure(
    tx: &mut Transaction,
    registry: Registry,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, i64>, SqlError> {
    let (select, insert) = match registry {
        Registry::Projects => (
            "SELECT external_id, id FROM projects WHERE external_id IN",
            "INSERT INTO projects (created_at, external_id) VALUES",
        ),
        Registry::Users => (
            "SELECT external_id, id FROM users WHERE external_id IN",
            "INSERT INTO users (created_at, external_id) VALUES",
        ),
        Registry::ConsumerTypes => (
            "SELECT name, id FROM consumer_types WHERE name IN",
            "INSERT INTO consumer_types (created_at, name) VALUES",
        ),
    };
    let keys: Vec<String> = names.iter().cloned().collect();
    let mut known = pick(tx, select, &keys).await?;
    let mut missing: Vec<String> = keys
        .into_iter()
        .filter(|name| !known.contains_key(name))
        .collect();
    if tx.dialect() == Dialect::MySql {
        // It takes names for the same that differ in case or in accents, and so does the Python service there.
        let alike = std::mem::take(&mut missing);
        for name in alike {
            let rows = tx.rows_in(&Statement::new(select), &[&name], "").await?;
            let id = match rows.first() {
                Some(row) => row.int(1)?,
                None => {
                    let sql = format!("{insert} (?, ?)");
                    let statement = Statement::recurring(sql).bind(now()).bind(&name);
                    tx.insert(statement, "id").await?
                }
            };
            known.insert(name, id);
        }
    }
    if !missing.is_empty() {
        let rows = missing.iter().map(|name| [now(), Value::from(name)]);
        tx.insert_rows(insert, rows.collect(), "").await?;
        known.extend(pick(tx, select, &missing).await?);
    }
    Ok(known)
}

async fn pick(
    tx: &mut Transaction,
    select: &'static str,
    keys: &[String],
) -> Result<BTreeMap<String, i64>, SqlError> {
    let rows = tx.rows_in(&Statement::new(select), keys, "").await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// Adds consumers at generation 1: each is made together with its first allocations.
pub(crate) async fn insert(
    tx: &mut Transaction,
    consumers: &[(&str, Owner)],
) -> Result<(), SqlError> {
    let rows = consumers.iter().map(|(uuid, owner)| {
        [
            now(),
            Value::from(*uuid),
            Value::from(owner.project),
            Value::from(owner.user),
            Value::from(1),
            Value::from(owner.consumer_type),
        ]
    });
    let head = "INSERT INTO consumers \
                (created_at, uuid, project_id, user_id, generation, consumer_type_id) VALUES";
    tx.insert_rows(head, rows.collect(), "").await?;
    Ok(())
}

/// Raises the generation of each by one and sets its owner. False when one of them changed since
/// it was read.
pub(crate) async fn update(
    tx: &mut Transaction,
    consumers: &[(ConsumerRow, Owner)],
) -> Result<bool, SqlError> {
    // Consumers of one call mostly share the generation: a few statements do. An owner that stays is not written, for the
    // indexes it is in.
    let mut alike: BTreeMap<(i64, Option<Owner>), Vec<i64>> = BTreeMap::new();
    for (row, owner) in consumers {
        let new_owner = Some(*owner).filter(|owner| *owner != row.owner);
        alike
            .entry((row.generation, new_owner))
            .or_default()
            .push(row.id);
    }
    for ((generation, new_owner), ids) in alike {
        let raised = super::raised(generation, 1)?;
        let head = match new_owner {
            None => Statement::new(
                "UPDATE consumers SET updated_at = ?, generation = ? WHERE generation = ? AND id IN",
            )
            .bind(now())
            .bind(raised),
            Some(owner) => Statement::new(
                "UPDATE consumers SET updated_at = ?, generation = ?, project_id = ?, user_id = ?, \
                 consumer_type_id = ? WHERE generation = ? AND id IN",
            )
            .bind(now())
            .bind(raised)
            .bind(owner.project)
            .bind(owner.user)
            .bind(owner.consumer_type),
        };
        let changed = tx.execute_in(&head.bind(generation), &ids).await?;
        if changed != u64::try_from(ids.len()).unwrap_or(u64::MAX) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes consumers that give all back. False when one of them changed since it was read.
pub(crate) async fn delete(
    tx: &mut Transaction,
    consumers: &[ConsumerRow],
) -> Result<bool, SqlError> {
    let mut alike: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in consumers {
        alike.entry(row.generation).or_default().push(row.id);
    }
    for (generation, ids) in alike {
        let head = Statement::new("DELETE FROM consumers WHERE generation = ? AND id IN");
        let gone = tx.execute_in(&head.bind(generation), &ids).await?;
        if gone != u64::try_from(ids.len()).unwrap_or(u64::MAX) {
            return Ok(false);
        }
    }
    Ok(true)
}
