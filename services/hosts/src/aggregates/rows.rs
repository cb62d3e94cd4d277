//! The rows of aggregates.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::{SqlError, Statement, Transaction};
use uuid::Uuid;

use super::{HostAggregate, metadata};
use crate::store::{TableError, typed};

/// All aggregates, by number.
pub(super) async fn all(tx: &mut Transaction) -> Result<Vec<HostAggregate>, TableError> {
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
            metadata: metadata(&row.text(3)?)?,
            hosts: hosts.remove(&id).unwrap_or_default(),
            created_at: row.moment(4)?,
            updated_at: row.opt_moment(5)?,
        })
    });
    aggregates.collect()
}

/// Writes a new one; its number.
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
        .bind(text(metadata));
    tx.insert(insert, "id").await
}

/// Writes what differs of one.
pub(super) async fn write(
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
            .bind(text(&is.metadata))
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

/// Keys and values as they are kept.
fn text(metadata: &BTreeMap<String, String>) -> String {
    let entries = metadata.iter();
    let entries = entries.map(|(key, value)| (key.clone(), value.clone().into()));
    serde_json::Value::Object(entries.collect()).to_string()
}

/// How many guests a host tells of.
pub(super) async fn guests(tx: &mut Transaction, host: &str) -> Result<i64, SqlError> {
    let sql = "SELECT instances FROM compute_nodes WHERE host = ?";
    let rows = tx.rows(Statement::new(sql).bind(host)).await?;
    rows.iter().map(|row| row.int(0)).sum()
}

/// Whether there is such a host.
pub(super) async fn is_host(tx: &mut Transaction, host: &str) -> Result<bool, SqlError> {
    let sql = "SELECT 1 FROM compute_hosts WHERE host = ?";
    Ok(tx.row(Statement::new(sql).bind(host)).await?.is_some())
}
