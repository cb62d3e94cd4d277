//! Statements and rows of the device tables.

use berth_model::NodeName;
use berth_store::{Row, SqlError, Statement, Transaction, Work};

use crate::register::records::{
    Quarantine, QuarantinedBy, Register, ResetStart, WithheldReason, from_seconds, seconds,
};
use crate::register::reset_at_deletion::forget_reset_at_deletion;

/// The tables. Journals of earlier releases get them when they are opened.
pub(crate) const CREATE: &str = "
CREATE TABLE IF NOT EXISTS device_quarantine (
    name TEXT NOT NULL PRIMARY KEY,
    reason TEXT NOT NULL,
    by_whom TEXT NOT NULL CHECK (by_whom IN ('agent', 'operator')),
    since INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS device_cleaning (
    name TEXT NOT NULL PRIMARY KEY
);
CREATE TABLE IF NOT EXISTS device_cleaned (
    name TEXT NOT NULL PRIMARY KEY,
    releases INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS device_sick (
    address TEXT NOT NULL PRIMARY KEY,
    words TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS device_disabled (
    node TEXT NOT NULL,
    provider TEXT NOT NULL,
    PRIMARY KEY (node, provider)
);
CREATE TABLE IF NOT EXISTS fabric_partition (
    id INTEGER NOT NULL PRIMARY KEY,
    guest TEXT NOT NULL,
    functions TEXT NOT NULL
);
";

pub(super) fn set_quarantine(name: &str, why: &Quarantine) -> Statement {
    // A new reason does not change `since`.
    let sql = "INSERT INTO device_quarantine (name, reason, by_whom, since) VALUES (?, ?, ?, ?) \
               ON CONFLICT (name) DO UPDATE SET reason = excluded.reason, by_whom = excluded.by_whom";
    Statement::new(sql)
        .bind(name)
        .bind(why.reason.as_str())
        .bind(why.by.as_str())
        .bind(seconds(why.since))
}

pub(super) fn delete_quarantine(name: &str) -> Statement {
    Statement::new("DELETE FROM device_quarantine WHERE name = ?").bind(name)
}

pub(super) fn set_unhealthy(address: &str, output: &str) -> Statement {
    let sql = "INSERT INTO device_sick (address, words) VALUES (?, ?) \
               ON CONFLICT (address) DO UPDATE SET words = excluded.words";
    Statement::new(sql).bind(address).bind(output)
}

pub(super) fn set_release_count(name: &str, release_count: i64) -> Statement {
    let sql = "INSERT INTO device_cleaned (name, releases) VALUES (?, ?) \
               ON CONFLICT (name) DO UPDATE SET releases = excluded.releases";
    Statement::new(sql).bind(name).bind(release_count)
}

/// Why a guest cannot claim a device that it does not have; `None` if it can.
pub(crate) async fn withheld_reason(
    tx: &mut Transaction,
    name: &str,
) -> Result<Option<WithheldReason>, SqlError> {
    let sql = "SELECT 1 FROM device_cleaning WHERE name = ?";
    if tx.row(Statement::new(sql).bind(name)).await?.is_some() {
        return Ok(Some(WithheldReason::Resetting));
    }
    let sql = "SELECT reason FROM device_quarantine WHERE name = ?";
    let row = tx.row(Statement::new(sql).bind(name)).await?;
    let reason = row.map(|row| row.text(0)).transpose()?;
    Ok(reason.map(WithheldReason::Quarantined))
}

pub(super) struct BeginReset<'a>(pub(super) &'a str);

impl Work for BeginReset<'_> {
    /// The error is the text that a row has instead of a guest's UUID.
    type Output = Result<ResetStart, String>;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Self::Output, SqlError> {
        let holder = Statement::new("SELECT guest FROM device WHERE name = ?").bind(self.0);
        if let Some(row) = tx.row(holder).await? {
            let guest = row.text(0)?;
            return Ok(match guest.parse() {
                Ok(guest) => Ok(ResetStart::Held(guest)),
                Err(_) => Err(guest),
            });
        }
        let sql = "INSERT INTO device_cleaning (name) VALUES (?) ON CONFLICT (name) DO NOTHING";
        let begun = tx.execute(Statement::new(sql).bind(self.0)).await?;
        if begun.rows_affected == 0 {
            return Ok(Ok(ResetStart::InProgress));
        }
        // The reset of the last guest no longer counts: the device is reset again or programmed.
        tx.execute(forget_reset_at_deletion(self.0)).await?;
        Ok(Ok(ResetStart::Begun))
    }
}

/// Reads all tables. An inner error is the reason why a row is invalid.
pub(super) async fn read_register(
    tx: &mut Transaction,
) -> Result<Result<Register, String>, SqlError> {
    let sql = "SELECT name, reason, by_whom, since FROM device_quarantine";
    let quarantines = tx.rows(Statement::new(sql)).await?;
    let cleaning = tx
        .rows(Statement::new("SELECT name FROM device_cleaning"))
        .await?;
    let sql = "SELECT name, releases FROM device_cleaned";
    let cleaned = tx.rows(Statement::new(sql)).await?;
    let unhealthy = tx
        .rows(Statement::new("SELECT address, words FROM device_sick"))
        .await?;
    let held = tx
        .rows(Statement::new("SELECT name, guest FROM device"))
        .await?;
    let sql = "SELECT node, provider FROM device_disabled";
    let disabled = tx.rows(Statement::new(sql)).await?;
    let mut register = Register::default();
    for row in &quarantines {
        register.quarantines.insert(row.text(0)?, quarantine(row)?);
    }
    for row in &cleaning {
        register.running_resets.insert(row.text(0)?);
    }
    for row in &cleaned {
        register
            .release_count_at_reset
            .insert(row.text(0)?, row.int(1)?);
    }
    for row in &unhealthy {
        register.unhealthy.insert(row.text(0)?, row.text(1)?);
    }
    for row in &held {
        let (name, guest) = (row.text(0)?, row.text(1)?);
        let Ok(guest) = guest.parse() else {
            return Ok(Err(format!(
                "the guest of device {name} is {guest:?}; expected a UUID"
            )));
        };
        register.held.insert(name, guest);
    }
    for row in &disabled {
        let (node, provider) = (row.text(0)?, row.text(1)?);
        let (Ok(node), Ok(provider)) = (NodeName::new(&node), provider.parse()) else {
            return Ok(Err(format!(
                "{provider:?} of node {node:?} is not a valid provider"
            )));
        };
        register.disabled.entry(node).or_default().insert(provider);
    }
    Ok(Ok(register))
}

fn quarantine(row: &Row) -> Result<Quarantine, SqlError> {
    Ok(Quarantine {
        reason: row.text(1)?,
        by: match row.text(2)?.as_str() {
            "operator" => QuarantinedBy::Operator,
            _ => QuarantinedBy::Agent,
        },
        since: from_seconds(row.int(3)?),
    })
}
