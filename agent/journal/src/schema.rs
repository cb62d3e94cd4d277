//! The tables, and whether a file has them.

use berth_store::{SqlError, Statement, Transaction, Work};

use crate::register;

/// The version that this release writes.
pub(super) const VERSION: i64 = 3;

const CREATE: &str = "
CREATE TABLE guest_journal (version INTEGER NOT NULL);
INSERT INTO guest_journal (version) VALUES (3);
CREATE TABLE guest (
    uuid TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    course TEXT NOT NULL,
    power TEXT NOT NULL,
    devices TEXT,
    life TEXT
);
CREATE TABLE step (
    guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE,
    step TEXT NOT NULL CHECK (step IN ('bind', 'check', 'prepare', 'define', 'start')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'undoing', 'undone')),
    detail TEXT NOT NULL,
    PRIMARY KEY (guest, step)
);
CREATE TABLE device (
    name TEXT NOT NULL PRIMARY KEY,
    guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE
);
CREATE INDEX device_guest ON device (guest);
";

/// From the version before guests were rescued and rebuilt.
const FROM_1: &str = "
ALTER TABLE guest ADD COLUMN life TEXT;
UPDATE guest_journal SET version = 3;
";

/// From the version before actions had ids, which stand in `life`: an earlier release could not read it.
const FROM_2: &str = "UPDATE guest_journal SET version = 3;";

/// What a file turned out to be.
pub(super) enum Found {
    /// A journal of this release.
    Ours,
    /// A journal of a later one.
    Newer(i64),
    /// Something else, or damaged.
    Other(String),
}

/// Looks whether the file is whole and a journal; makes the tables in an empty one.
pub(super) struct Opening;

impl Work for Opening {
    type Output = Found;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Found, SqlError> {
        if let Some(damage) = tx.damage().await? {
            return Ok(Found::Other(damage));
        }
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let tables = tx.rows(Statement::new(names)).await?;
        if tables.is_empty() {
            tx.script(CREATE).await?;
            tx.script(register::CREATE).await?;
            tx.script(register::CREATE_GIVEN_BACK).await?;
            return Ok(Found::Ours);
        }
        let names = tables.iter().map(|row| row.text(0));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        if !names.iter().any(|name| name == "guest_journal") {
            return Ok(Found::Other(format!("it has the table {}", names[0])));
        }
        let version = Statement::new("SELECT version FROM guest_journal");
        match tx.row(version).await?.map(|row| row.int(0)).transpose()? {
            Some(VERSION) => {
                tx.script(register::CREATE).await?;
                tx.script(register::CREATE_GIVEN_BACK).await?;
                Ok(Found::Ours)
            }
            Some(before @ (1 | 2)) => {
                let brought = if before == 1 { FROM_1 } else { FROM_2 };
                tx.script(brought).await?;
                tx.script(register::CREATE).await?;
                tx.script(register::CREATE_GIVEN_BACK).await?;
                Ok(Found::Ours)
            }
            Some(found) if found > VERSION => Ok(Found::Newer(found)),
            found => Ok(Found::Other(format!("its version is {found:?}"))),
        }
    }
}
