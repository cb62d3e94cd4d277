//! Consumers with their projects, users and types.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{Dialect, SqlError, Statement, Transaction, Value};

use super::now;

/// A row of the consumers table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsumerRow {
    pub(crate) id: i64,
    pub(crate) generation: i64,
    pub(crate) owner: ConsumerOwner,
}

/// The owner of a consumer, as row ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConsumerOwner {
    pub(crate) project: i64,
    pub(crate) user: i64,
    pub(crate) consumer_type: Option<i64>,
}

/// The rows of those UUIDs that are consumers.
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
            let owner = ConsumerOwner {
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

/// The names of the project and the user of each of these consumers, by the id of the consumer.
pub(crate) async fn owner_names(
    tx: &mut Transaction,
    ids: &[i64],
) -> Result<BTreeMap<i64, (String, String)>, SqlError> {
    let columns = "k.id, p.external_id, u.external_id";
    let packed = tx.dialect().packed(columns);
    let head = Statement::recurring(format!(
        "SELECT {packed} FROM consumers k \
         JOIN projects p ON p.id = k.project_id \
         JOIN users u ON u.id = k.user_id \
         WHERE k.id IN"
    ));
    let mut names = BTreeMap::new();
    for row in tx.rows_in(&head, ids, "").await? {
        for (id, project, user) in row.unpack::<(i64, String, String)>(0)? {
            names.insert(id, (project, user));
        }
    }
    Ok(names)
}

/// A table of names that are inserted on first use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NameTable {
    Projects,
    Users,
    ConsumerTypes,
}

/// Locks a consumer until the transaction ends, because its row is always changed before its allocations. It is the
/// first statement of a transaction, so that later reads are not older.
pub(crate) async fn hold(tx: &mut Transaction, uuid: &str) -> Result<(), SqlError> {
    let end = tx.dialect().for_update();
    if !end.is_empty() {
        let sql = format!("SELECT id FROM consumers WHERE uuid = ?{end}");
        tx.row(Statement::recurring(sql).bind(uuid)).await?;
    }
    Ok(())
}

/// The ids of all names; unknown names are inserted.
pub(crate) async fn ensure(
    tx: &mut Transaction,
    registry: NameTable,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, i64>, SqlError> {
    let (select, insert) = match registry {
        NameTable::Projects => (
            "SELECT external_id, id FROM projects WHERE external_id IN",
            "INSERT INTO projects (created_at, external_id) VALUES",
        ),
        NameTable::Users => (
            "SELECT external_id, id FROM users WHERE external_id IN",
            "INSERT INTO users (created_at, external_id) VALUES",
        ),
        NameTable::ConsumerTypes => (
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
        // MySQL treats names that differ in case or accents as equal, and so does the Python service there.
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

/// Inserts consumers with generation 1, together with their first allocations.
pub(crate) async fn insert(
    tx: &mut Transaction,
    consumers: &[(&str, ConsumerOwner)],
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

/// Raises the generation of each consumer and sets its owner. False if one of them changed since it was read.
pub(crate) async fn update(
    tx: &mut Transaction,
    consumers: &[(ConsumerRow, ConsumerOwner)],
) -> Result<bool, SqlError> {
    // Consumers of one call mostly share a generation, so few statements are needed. An unchanged owner is not written,
    // because it is indexed.
    let mut alike: BTreeMap<(i64, Option<ConsumerOwner>), Vec<i64>> = BTreeMap::new();
    for (row, owner) in consumers {
        let new_owner = Some(*owner).filter(|owner| *owner != row.owner);
        alike
            .entry((row.generation, new_owner))
            .or_default()
            .push(row.id);
    }
    for ((generation, new_owner), ids) in alike {
        let raised = super::generation_after(generation, 1)?;
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

/// Deletes consumers without allocations. False if one of them changed since it was read.
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
