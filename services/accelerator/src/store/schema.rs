//! Brings a database to the service's schema, or refuses one that is another's.
//!
//! A database of version 1 is brought to this version in one transaction, whatever it lacks of it: that number stood for several
//! shapes.

use berth_store::{Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Work};

/// The schema's version. 2: devices are cleaned and programmed.
pub const VERSION: i64 = 2;

/// The version that is brought to this one.
const BEFORE: i64 = 1;

/// The columns that version 1 may lack, by table, and what adds each.
const ADDED: [(&str, &str, &str); 6] = [
    (
        "deployables",
        "provider_missing",
        "ALTER TABLE deployables ADD COLUMN provider_missing INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "deployables",
        "programmable",
        "ALTER TABLE deployables ADD COLUMN programmable INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "deployables",
        "bitstream_id",
        "ALTER TABLE deployables ADD COLUMN bitstream_id VARCHAR(255)",
    ),
    (
        "attach_handles",
        "scrubbed",
        "ALTER TABLE attach_handles ADD COLUMN scrubbed INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "attach_handles",
        "releases",
        "ALTER TABLE attach_handles ADD COLUMN releases INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "attach_handles",
        "cleaned",
        "ALTER TABLE attach_handles ADD COLUMN cleaned INTEGER NOT NULL DEFAULT 0",
    ),
];

/// The table that version 1 may lack, made where it is not there: a part of the schema.
const PROGRAMMINGS: &str = include_str!("programmings.sql");

const SCHEMA: &str = include_str!("schema.sql");

/// Indexes that a database of this version may lack: they change what is quick, not what is there.
const INDEXES: &str =
    "CREATE INDEX IF NOT EXISTS accelerator_requests_state ON accelerator_requests (state)";

/// Why a database is not ready.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema is at another version.
    #[error(
        "the database is at version {found} of the accelerator service's schema; this release knows {BEFORE} and {VERSION}: \
         start the release that wrote it, or name another file"
    )]
    OtherVersion {
        /// What `accelerator_schema` says; 0 when it has no row.
        found: i64,
    },
    /// There are tables, but none of this service's.
    #[error("the database has tables of something else; name another file")]
    NotOurs,
    /// The database failed.
    #[error("the schema cannot be read or made")]
    Sql(#[from] SqlError),
}

impl Retryable for SchemaError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry(error),
            _ => Disposition::Fatal,
        }
    }
}

/// Makes the schema in an empty database, checks it in another.
///
/// # Errors
/// [`SchemaError`] when the database is at another version, is not this service's, or fails.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    store.write(&Prepare).await
}

struct Prepare;

impl Work for Prepare {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
        let sql =
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let rows = tx.rows(Statement::new(sql)).await?;
        let tables: Vec<String> = rows
            .iter()
            .map(|row| row.text(0))
            .collect::<Result<_, _>>()?;
        if tables.is_empty() {
            tx.script(SCHEMA).await?;
            tx.script(PROGRAMMINGS).await?;
            tx.script(INDEXES).await?;
            let insert = Statement::new("INSERT INTO accelerator_schema (version) VALUES (?)");
            tx.execute(insert.bind(VERSION)).await?;
            return Ok(());
        }
        if !tables.iter().any(|table| table == "accelerator_schema") {
            return Err(SchemaError::NotOurs);
        }
        let sql = "SELECT version FROM accelerator_schema";
        let found = match tx.row(Statement::new(sql)).await? {
            Some(row) => row.int(0)?,
            None => 0,
        };
        match found {
            VERSION => {}
            BEFORE => upgrade(tx).await?,
            found => return Err(SchemaError::OtherVersion { found }),
        }
        Ok(tx.script(INDEXES).await?)
    }
}

async fn upgrade(tx: &mut Transaction) -> Result<(), SqlError> {
    for (table, column, add) in ADDED {
        let sql = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?";
        let there = Statement::new(sql).bind(table).bind(column);
        if tx.row(there).await?.is_none() {
            tx.script(add).await?;
        }
    }
    tx.script(PROGRAMMINGS).await?;
    let version = Statement::new("UPDATE accelerator_schema SET version = ?");
    tx.execute(version.bind(VERSION)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A database of version 1 as it was first.
    const FIRST: &str = include_str!("schema_1.sql");

    /// The columns of each table, with their types and whether they may be null.
    async fn shape(store: &SqlStore) -> BTreeMap<String, Vec<String>> {
        let mut tx = store.read().await.unwrap();
        let sql = "SELECT m.name, c.name || ' ' || c.type || ' ' || c.\"notnull\" FROM sqlite_master m \
                   JOIN pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.name";
        let mut shape: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in tx.rows(Statement::new(sql)).await.unwrap() {
            let table = shape.entry(row.text(0).unwrap()).or_default();
            table.push(row.text(1).unwrap());
        }
        shape
    }

    async fn of_version_1(script: &'static str) -> SqlStore {
        let store = SqlStore::in_memory().await.unwrap();
        store.write(&Script(script)).await.unwrap();
        store
    }

    struct Script(&'static str);

    impl Work for Script {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await?;
            tx.script("INSERT INTO accelerator_schema (version) VALUES (1)")
                .await
        }
    }

    #[tokio::test]
    async fn a_database_of_version_1_gets_what_it_lacks_and_keeps_what_it_has() {
        let fresh = SqlStore::in_memory().await.unwrap();
        prepare(&fresh).await.unwrap();
        for script in [FIRST, SCHEMA] {
            let store = of_version_1(script).await;
            let profile =
                "INSERT INTO device_profiles VALUES (1, 'u', 'gpu', NULL, '[]', 'now', NULL)";
            store.write(&Statements(profile)).await.unwrap();
            for _ in 0..2 {
                prepare(&store).await.unwrap();
                assert_eq!(shape(&store).await, shape(&fresh).await);
            }
            let mut tx = store.read().await.unwrap();
            let sql = Statement::new("SELECT name FROM device_profiles");
            let name = tx.row(sql).await.unwrap().unwrap().text(0).unwrap();
            assert_eq!(name, "gpu");
        }
    }

    struct Statements(&'static str);

    impl Work for Statements {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await
        }
    }

    #[tokio::test]
    async fn a_later_releases_database_is_refused_with_a_sentence() {
        let store = of_version_1(SCHEMA).await;
        let later = "UPDATE accelerator_schema SET version = 7";
        store.write(&Statements(later)).await.unwrap();
        let refused = prepare(&store).await.unwrap_err().to_string();
        assert!(
            refused.contains("version 7") && refused.contains("1 and 2"),
            "{refused}"
        );
    }
}
