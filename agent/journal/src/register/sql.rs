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

/// Reads all tables by one statement, which sees one state of the database and is one message to the driver's thread.
pub(super) const READ_REGISTER: &str = "\
SELECT 'quarantine', name, reason, by_whom, since FROM device_quarantine \
UNION ALL SELECT 'cleaning', name, NULL, NULL, NULL FROM device_cleaning \
UNION ALL SELECT 'cleaned', name, NULL, NULL, releases FROM device_cleaned \
UNION ALL SELECT 'sick', address, words, NULL, NULL FROM device_sick \
UNION ALL SELECT 'held', name, guest, NULL, NULL FROM device \
UNION ALL SELECT 'disabled', node, provider, NULL, NULL FROM device_disabled";

/// The register from the rows of [`READ_REGISTER`]. An inner error is the reason why a row is invalid.
pub(super) fn register_of(rows: &[Row]) -> Result<Result<Register, String>, SqlError> {
    let mut register = Register::default();
    for row in rows {
        let (table, name) = (row.text(0)?, row.text(1)?);
        match table.as_str() {
            "quarantine" => {
                register.quarantines.insert(name, quarantine(row)?);
            }
            "cleaning" => {
                register.running_resets.insert(name);
            }
            "cleaned" => {
                let releases = row.int(4)?;
                register.release_count_at_reset.insert(name, releases);
            }
            "sick" => {
                register.unhealthy.insert(name, row.text(2)?);
            }
            "held" => {
                let guest = row.text(2)?;
                let Ok(guest) = guest.parse() else {
                    return Ok(Err(format!(
                        "the guest of device {name} is {guest:?}; expected a UUID"
                    )));
                };
                register.held.insert(name, guest);
            }
            _ => {
                let provider = row.text(2)?;
                let (Ok(node), Ok(provider)) = (NodeName::new(&name), provider.parse()) else {
                    return Ok(Err(format!(
                        "{provider:?} of node {name:?} is not a valid provider"
                    )));
                };
                register.disabled.entry(node).or_default().insert(provider);
            }
        }
    }
    Ok(Ok(register))
}

fn quarantine(row: &Row) -> Result<Quarantine, SqlError> {
    Ok(Quarantine {
        reason: row.text(2)?,
        by: match row.text(3)?.as_str() {
            "operator" => QuarantinedBy::Operator,
            _ => QuarantinedBy::Agent,
        },
        since: from_seconds(row.int(4)?),
    })
}
