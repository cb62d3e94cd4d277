//! The tables of the conductor's journal.

use berth_store::{SqlError, Statement, Transaction, Work};
use berth_workflow::JournalSchema;
use uuid::Uuid;

pub(super) const SCHEMA: JournalSchema = JournalSchema {
    file: "conductor.db",
    version_table: "conductor_journal",
    create: CREATE,
    version: 2,
    upgrades: &[(1, PORT_STEPS)],
    additions: &[OWNER, OPEN, LATE_CLAIM, LATE_PORT],
};

const CREATE: &str = "
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
    step TEXT NOT NULL CHECK (step IN ('claim', 'arqs', 'bind', 'ports', 'port_binding', 'build')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'undoing', 'undone')),
    detail TEXT NOT NULL,
    PRIMARY KEY (guest, attempt, step)
);
CREATE TABLE stray (profile TEXT NOT NULL PRIMARY KEY);
";

/// Lets the table of steps have those of ports.
const PORT_STEPS: &str = "
CREATE TABLE new_step (
    guest TEXT NOT NULL REFERENCES guest (uuid) ON DELETE CASCADE,
    attempt INTEGER NOT NULL,
    step TEXT NOT NULL CHECK (step IN ('claim', 'arqs', 'bind', 'ports', 'port_binding', 'build')),
    state TEXT NOT NULL CHECK (state IN ('begun', 'done', 'undoing', 'undone')),
    detail TEXT NOT NULL,
    PRIMARY KEY (guest, attempt, step)
);
INSERT INTO new_step SELECT guest, attempt, step, state, detail FROM step;
DROP TABLE step;
ALTER TABLE new_step RENAME TO step;
";

const OWNER: &str = "CREATE TABLE IF NOT EXISTS owner (uuid TEXT NOT NULL)";

/// SQL condition of [`super::BootRecord::is_open`]. It must be identical in the index and in queries; otherwise
/// SQLite does not use the index.
macro_rules! open {
    () => {
        r#"course <> '"active"' AND substr(course, 1, 10) <> '{"failed":'"#
    };
}
pub(super) use open;

/// Finds unfinished guests without reading all rows.
const OPEN: &str = concat!(
    "CREATE INDEX IF NOT EXISTS guest_open ON guest (uuid) WHERE ",
    open!()
);

/// The guests with late claims.
const LATE_CLAIM: &str = "CREATE TABLE IF NOT EXISTS late_claim (guest TEXT NOT NULL PRIMARY KEY)";

/// The guests with late ports.
const LATE_PORT: &str =
    "CREATE TABLE IF NOT EXISTS late_port (guest TEXT NOT NULL PRIMARY KEY, project TEXT NOT NULL)";

/// Reads the conductor's UUID; creates it if it is missing.
pub(super) struct ReadOwner;

impl Work for ReadOwner {
    type Output = Uuid;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<Uuid, SqlError> {
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
}
