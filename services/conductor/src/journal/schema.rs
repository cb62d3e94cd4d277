//! The journal's tables, and the check of a file when it is opened.

use berth_store::{SqlError, Statement, Transaction, Work};
use uuid::Uuid;

/// Schema version that this release writes.
pub(super) const VERSION: i64 = 1;

const CREATE: &str = "
CREATE TABLE conductor_journal (version INTEGER NOT NULL);
INSERT INTO conductor_journal (version) VALUES (1);
CREATE TABLE guest (
    uuid TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    config_drive TEXT,
    course TEXT NOT NULL,
    ending INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 1,
    failures TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE step (
    guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    step TEXT NOT NULL CHECK (step IN ('claim', 'arqs', 'bind', 'build')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'undoing', 'undone')),
    detail TEXT NOT NULL,
    PRIMARY KEY (guest, attempt, step)
);
CREATE TABLE stray (profile TEXT NOT NULL PRIMARY KEY);
";

/// Journals of earlier releases do not have this table.
const OWNER: &str = "CREATE TABLE IF NOT EXISTS owner (uuid TEXT NOT NULL)";

/// SQL condition of [`super::BootRecord::is_open`]. It must be identical in the index and in queries; otherwise
/// SQLite does not use the index.
macro_rules! open {
    () => {
        r#"course <> '"active"' AND substr(course, 1, 10) <> '{"failed":'"#
    };
}
pub(super) use open;

/// Also missing in older journals. Finds unfinished guests without reading all rows.
const OPEN: &str = concat!(
    "CREATE INDEX IF NOT EXISTS guest_open ON guest (uuid) WHERE ",
    open!()
);

/// Also missing in older journals. The guests with late claims.
const LATE_CLAIM: &str = "CREATE TABLE IF NOT EXISTS late_claim (guest TEXT NOT NULL PRIMARY KEY)";

/// Result of [`OpenJournal`].
pub(super) enum JournalCheck {
    /// A journal of this release, with its conductor's UUID.
    Ours(Uuid),
    /// A journal of a later release, with its version.
    Newer(i64),
    /// Damaged or not a journal, with the reason.
    Other(String),
}

/// Checks that the file is an intact journal; creates the tables in an empty file.
pub(super) struct OpenJournal;

impl Work for OpenJournal {
    type Output = JournalCheck;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<JournalCheck, SqlError> {
        if let Some(damage) = tx.damage().await? {
            return Ok(JournalCheck::Other(damage));
        }
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let tables = tx.rows(Statement::new(names)).await?;
        let names = tables.iter().map(|row| row.text(0));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = names.first() else {
            tx.script(CREATE).await?;
            return Ok(JournalCheck::Ours(owner(tx).await?));
        };
        if !names.iter().any(|name| name == "conductor_journal") {
            return Ok(JournalCheck::Other(format!("it has the table {first}")));
        }
        let version = Statement::new("SELECT version FROM conductor_journal");
        match tx.row(version).await?.map(|row| row.int(0)).transpose()? {
            Some(VERSION) => Ok(JournalCheck::Ours(owner(tx).await?)),
            Some(found) if found > VERSION => Ok(JournalCheck::Newer(found)),
            found => Ok(JournalCheck::Other(format!("its version is {found:?}"))),
        }
    }
}

/// Returns the conductor's UUID, which it creates if it is missing; creates what earlier releases did not have.
async fn owner(tx: &mut Transaction) -> Result<Uuid, SqlError> {
    tx.execute(Statement::new(OWNER)).await?;
    tx.execute(Statement::new(OPEN)).await?;
    tx.execute(Statement::new(LATE_CLAIM)).await?;
    let known = tx.row(Statement::new("SELECT uuid FROM owner")).await?;
    let known = known.map(|row| row.text(0)).transpose()?;
    if let Some(uuid) = known.and_then(|text| text.parse().ok()) {
        return Ok(uuid);
    }
    let uuid = Uuid::new_v4();
    let insert = Statement::new("INSERT INTO owner (uuid) VALUES (?)");
    tx.execute(insert.bind(uuid.to_string())).await?;
    Ok(uuid)
}
