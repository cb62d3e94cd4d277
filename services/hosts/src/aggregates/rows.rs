//! Queries of the tables `host_aggregates` and `host_aggregate_members`.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, Statement, Transaction};
use uuid::Uuid;

use super::aggregate::{HostAggregate, parse_metadata};
use crate::store::{HostTableError, typed};

/// All aggregates, sorted by ID.
pub(super) async fn list(tx: &mut Transaction) -> Result<Vec<HostAggregate>, HostTableError> {
    let sql = "SELECT aggregate_id, host FROM host_aggregate_members";
    let mut hosts: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for row in tx.rows(Statement::new(sql)).await? {
        hosts.entry(row.int(0)?).or_default().insert(row.text(1)?);
    }
    let sql =
        "SELECT id, uuid, name, metadata, created_at, updated_at FROM host_aggregates ORDER BY id";
    let rows = tx.rows(Statement::new(sql)).await?;
    let aggregates = rows.iter().map(|row| {
        let id = row.int(0)?;
        Ok(HostAggregate {
            id,
            uuid: typed(&row.text(1)?, "host_aggregates", "uuid")?,
            name: row.text(2)?,
            metadata: parse_metadata(&row.text(3)?)?,
            hosts: hosts.remove(&id).unwrap_or_default(),
            created_at: row.moment(4)?,
            updated_at: row.opt_moment(5)?,
        })
    });
    aggregates.collect()
}

/// Inserts an aggregate and returns its ID.
pub(super) async fn insert(
    tx: &mut Transaction,
    uuid: Uuid,
    name: &str,
    metadata: &BTreeMap<String, String>,
) -> Result<i64, SqlError> {
    let now = tx.dialect().now();
    let sql = format!(
        "INSERT INTO host_aggregates (uuid, name, metadata, created_at) VALUES (?, ?, ?, {now})"
    );
    let insert = Statement::recurring(sql)
        .bind(uuid.to_string())
        .bind(name)
        .bind(metadata_text(metadata));
    tx.insert(insert, "id").await
}

/// Writes the differences between `was` and `is`.
pub(super) async fn update(
    tx: &mut Transaction,
    was: &HostAggregate,
    is: &HostAggregate,
) -> Result<(), SqlError> {
    if (&was.name, &was.metadata) != (&is.name, &is.metadata) {
        let now = tx.dialect().now();
        let sql = format!(
            "UPDATE host_aggregates SET name = ?, metadata = ?, updated_at = {now} WHERE id = ?"
        );
        let update = Statement::recurring(sql)
            .bind(&is.name)
            .bind(metadata_text(&is.metadata))
            .bind(is.id);
        tx.execute(update).await?;
    }
    for host in was.hosts.difference(&is.hosts) {
        let sql = "DELETE FROM host_aggregate_members WHERE aggregate_id = ? AND host = ?";
        tx.execute(Statement::new(sql).bind(is.id).bind(host))
            .await?;
    }
    for host in is.hosts.difference(&was.hosts) {
        let sql = "INSERT INTO host_aggregate_members (aggregate_id, host) VALUES (?, ?)";
        tx.execute(Statement::new(sql).bind(is.id).bind(host))
            .await?;
    }
    Ok(())
}

/// Encodes the metadata column.
fn metadata_text(metadata: &BTreeMap<String, String>) -> String {
    let entries = metadata.iter();
    let entries = entries.map(|(key, value)| (key.clone(), value.clone().into()));
    serde_json::Value::Object(entries.collect()).to_string()
}

/// Number of guests that a host reports.
pub(super) async fn count_guests(tx: &mut Transaction, host: &str) -> Result<i64, SqlError> {
    let sql = "SELECT instances FROM compute_nodes WHERE host = ?";
    let rows = tx.rows(Statement::new(sql).bind(host)).await?;
    rows.iter().map(|row| row.int(0)).sum()
}

pub(super) async fn host_exists(tx: &mut Transaction, host: &str) -> Result<bool, SqlError> {
    let sql = "SELECT 1 FROM compute_hosts WHERE host = ?";
    Ok(tx.row(Statement::new(sql).bind(host)).await?.is_some())
}
