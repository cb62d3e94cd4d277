//! The tables, and whether a file has them.

use berth_store::{SqlError, Statement, Transaction, Work};
use uuid::Uuid;

/// The version that this release writes.
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

/// In journals of earlier releases it is not.
const OWNER: &str = "CREATE TABLE IF NOT EXISTS owner (uuid TEXT NOT NULL)";

/// Which guests are open ([`super::BootRecord::is_open`]), as the index has it, word for word: by another SQLite would not use it.
macro_rules! open {
    () => {
        r#"course <> '"active"' AND substr(course, 1, 10) <> '{"failed":'"#
    };
}
pub(super) use open;

/// Nor is this: of ten thousand guests that run, what is to be done is found without a look at each.
const OPEN: &str = concat!(
    "CREATE INDEX IF NOT EXISTS guest_open ON guest (uuid) WHERE ",
    open!()
);

/// Nor is this: the guests of which a claim may still come.
const LATE_CLAIM: &str = "CREATE TABLE IF NOT EXISTS late_claim (guest TEXT NOT NULL PRIMARY KEY)";

/// What a file turned out to be.
pub(super) enum Found {
    /// A journal of this release, and whose.
    Ours(Uuid),
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
        let names = tables.iter().map(|row| row.text(0));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = names.first() else {
            tx.script(CREATE).await?;
            return Ok(Found::Ours(owner(tx).await?));
        };
        if !names.iter().any(|name| name == "conductor_journal") {
            return Ok(Found::Other(format!("it has the table {first}")));
        }
        let version = Statement::new("SELECT version FROM conductor_journal");
        match tx.row(version).await?.map(|row| row.int(0)).transpose()? {
            Some(VERSION) => Ok(Found::Ours(owner(tx).await?)),
            Some(found) if found > VERSION => Ok(Found::Newer(found)),
            found => Ok(Found::Other(format!("its version is {found:?}"))),
        }
    }
}

/// The conductor's name, drawn where there is none; what else earlier releases did not make.
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
