//! Creates or upgrades the database schema, or refuses one of a newer release.
//!
//! A SQLite file of an earlier version is upgraded in one transaction; each missing part is added, because the first
//! version number stood for several shapes. Servers never had an earlier version. There the same tables use native
//! types: timestamps are dates, integers have eight bytes, and unlimited text has an unlimited type.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use berth_store::{
    Dialect, Disposition, Retryable, SCHEMA_WAIT, SqlError, SqlStore, Statement, Transaction, Work,
    in_words_of,
};

/// The schema's version. 2: devices are cleaned and programmed. 3: more than one process.
pub const VERSION: i64 = 3;

/// The versions that are brought to this one.
const BEFORE: [i64; 2] = [1, 2];

/// Columns that earlier versions may lack, by table, with the statement that adds each.
const ADDED: [(&str, &str, &str); 7] = [
    (
        "accelerator_schema",
        "writes",
        "ALTER TABLE accelerator_schema ADD COLUMN writes INTEGER NOT NULL DEFAULT 0",
    ),
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

/// The tables, in the order of creation.
const SCHEMA: &str = include_str!("schema.sql");

/// Tables that earlier versions may lack.
const LATER: &str = concat!(
    include_str!("programmings.sql"),
    include_str!("host_changes.sql")
);

/// Indexes that a database of this version may lack; they affect speed only.
const INDEXES: &str =
    "CREATE INDEX IF NOT EXISTS accelerator_requests_state ON accelerator_requests (state)";

/// Columns with unlimited text despite their type; SQLite ignores the limit.
const UNBOUNDED: [&str; 5] = [
    "    driver_name VARCHAR(255)",
    "    bitstream_id VARCHAR(255)",
    "    subject VARCHAR(255)",
    "    value VARCHAR(255)",
    // The request's column, not the device's.
    "    hostname VARCHAR(255),",
];

/// The schema in the dialect of a database.
fn schema(dialect: Dialect) -> &'static str {
    static SQLITE: LazyLock<String> = LazyLock::new(|| format!("{SCHEMA}{LATER}{INDEXES};\n"));
    static POSTGRES: LazyLock<String> = LazyLock::new(|| of_server(Dialect::Postgres));
    static MYSQL: LazyLock<String> = LazyLock::new(|| of_server(Dialect::MySql));
    match dialect {
        Dialect::Sqlite => &SQLITE,
        Dialect::Postgres => &POSTGRES,
        Dialect::MySql => &MYSQL,
    }
}

fn of_server(dialect: Dialect) -> String {
    let mut text = schema(Dialect::Sqlite).to_owned();
    for column in UNBOUNDED {
        text = text.replace(column, &column.replace("VARCHAR(255)", "TEXT"));
    }
    in_words_of(dialect, &text)
        .replace("IF NOT EXISTS ", "")
        .replace("VARCHAR(30)", "VARCHAR(255)")
}

/// Why a database is not ready.
#[derive(Debug, thiserror::Error)]
pub enum AcceleratorSchemaError {
    /// The schema is at another version.
    #[error(
        "the database is at version {found} of the accelerator service's schema; this release knows 1 to {VERSION}: \
         start the release that wrote it, or name another database"
    )]
    OtherVersion {
        /// The version in `accelerator_schema`.
        found: i64,
    },
    /// The tables are there, and no release left them so.
    #[error("the tables are damaged, or not as Berth makes them: {reason}")]
    Damaged {
        /// What was found, on one line.
        reason: String,
    },
    /// A table with the name of one of this service's tables belongs to another program.
    #[error("the database has a table {table} of something else; name another one")]
    NotOurs { table: &'static str },
    #[error("the schema cannot be read or created")]
    Sql(#[from] SqlError),
}

impl Retryable for AcceleratorSchemaError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => error.write_disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// Creates the schema if the database has none of its tables, else checks it. Tables of other services may be
/// in the same database.
pub async fn prepare(store: &SqlStore) -> Result<(), AcceleratorSchemaError> {
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    store.write(&PrepareSchema).await
}

struct PrepareSchema;

impl Work for PrepareSchema {
    type Output = ();
    type Error = AcceleratorSchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), AcceleratorSchemaError> {
        let mut tables = tx.table_names().await?;
        tables.retain(|table| names().any(|name| name == table));
        let is_ours = tables.contains("accelerator_schema");
        let found = match is_ours {
            true => version(tx).await?,
            false => 0,
        };
        if tables.is_empty() || (is_ours && is_half_made(tx, &tables, found).await?) {
            return Ok(make(tx, &tables).await?);
        }
        match (found, tx.dialect()) {
            _ if !is_ours => {
                let table = names().find(|name| tables.contains(*name));
                let table = table.unwrap_or_default();
                Err(AcceleratorSchemaError::NotOurs { table })
            }
            (VERSION, Dialect::Sqlite) => Ok(tx.script(INDEXES).await?),
            (VERSION, _) => Ok(()),
            (found, Dialect::Sqlite) if BEFORE.contains(&found) => Ok(upgrade(tx).await?),
            (found, _) => Err(match tx.damage().await? {
                // A number from a damaged page does not mean a newer release.
                Some(reason) => AcceleratorSchemaError::Damaged { reason },
                None if found > 0 => AcceleratorSchemaError::OtherVersion { found },
                None => AcceleratorSchemaError::Damaged {
                    reason: "accelerator_schema does not contain the version".to_owned(),
                },
            }),
        }
    }
}

/// The version in `accelerator_schema`; 0 without a row.
async fn version(tx: &mut Transaction) -> Result<i64, SqlError> {
    let sql = "SELECT version FROM accelerator_schema";
    let row = tx.row(Statement::new(sql)).await?;
    row.map_or(Ok(0), |row| row.int(0))
}

/// Whether an earlier creation was interrupted: MySQL commits each table separately, and the version is written last.
/// Tables with rows are complete.
async fn is_half_made(
    tx: &mut Transaction,
    tables: &BTreeSet<String>,
    version: i64,
) -> Result<bool, SqlError> {
    if tx.dialect() != Dialect::MySql || version != 0 {
        return Ok(false);
    }
    for table in tables {
        let any = format!("SELECT 1 FROM {table} LIMIT 1");
        if tx.row(Statement::new(any)).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tables, in the order of creation.
fn names() -> impl Iterator<Item = &'static str> {
    let lines = schema(Dialect::MySql).lines();
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next())
}

/// Creates the tables. Tables left by an interrupted creation are dropped first.
async fn make(tx: &mut Transaction, found: &BTreeSet<String>) -> Result<(), SqlError> {
    let text = schema(tx.dialect());
    if tx.dialect() == Dialect::MySql {
        let made: Vec<_> = names().filter(|name| found.contains(*name)).collect();
        // Tables that refer to others were created after them.
        for name in made.into_iter().rev() {
            let drop = format!("DROP TABLE {name}");
            tx.execute(Statement::new(drop)).await?;
        }
        for statement in text.split_terminator(";\n") {
            tx.execute(Statement::new(statement)).await?;
        }
    } else {
        tx.script(text).await?;
    }
    let insert = Statement::new("INSERT INTO accelerator_schema (version) VALUES (?)");
    tx.execute(insert.bind(VERSION)).await?;
    Ok(())
}

async fn upgrade(tx: &mut Transaction) -> Result<(), SqlError> {
    for (table, column, add) in ADDED {
        let sql = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?";
        let there = Statement::new(sql).bind(table).bind(column);
        if tx.row(there).await?.is_none() {
            tx.script(add).await?;
        }
    }
    tx.script(LATER).await?;
    tx.script(INDEXES).await?;
    let version = Statement::new("UPDATE accelerator_schema SET version = ?");
    tx.execute(version.bind(VERSION)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The first shape of version 1.
    const FIRST: &str = include_str!("schema_1.sql");

    /// The columns of each table, with type and nullability.
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

    /// The schema of version 2.
    fn second() -> &'static str {
        let first = "INTEGER NOT NULL PRIMARY KEY,\n    writes INTEGER NOT NULL DEFAULT 0";
        let schema = SCHEMA.replace(first, "INTEGER NOT NULL PRIMARY KEY");
        assert_ne!(schema, SCHEMA);
        (schema + include_str!("programmings.sql")).leak()
    }

    async fn of_version(version: i64, script: &'static str) -> SqlStore {
        let store = SqlStore::in_memory().await.unwrap();
        store.write(&Script(version, script)).await.unwrap();
        store
    }

    struct Script(i64, &'static str);

    impl Work for Script {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.1).await?;
            let insert = Statement::new("INSERT INTO accelerator_schema (version) VALUES (?)");
            tx.execute(insert.bind(self.0)).await?;
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_database_of_an_earlier_version_gets_what_it_lacks_and_keeps_what_it_has() {
        let fresh = SqlStore::in_memory().await.unwrap();
        prepare(&fresh).await.unwrap();
        for (version, script) in [(1, FIRST), (1, SCHEMA), (2, second())] {
            let store = of_version(version, script).await;
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

    #[tokio::test]
    async fn tables_that_do_not_say_their_version_are_no_other_releases() {
        let store = of_version(0, SCHEMA).await;
        let refused = prepare(&store).await.unwrap_err();
        assert!(
            matches!(refused, AcceleratorSchemaError::Damaged { .. }),
            "{refused}"
        );
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
        let store = of_version(1, SCHEMA).await;
        let later = "UPDATE accelerator_schema SET version = 7";
        store.write(&Statements(later)).await.unwrap();
        let refused = prepare(&store).await.unwrap_err().to_string();
        assert!(
            refused.contains("version 7") && refused.contains("1 to 3"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn tables_of_others_stay_and_one_of_the_same_name_is_refused() {
        let foreign = "CREATE TABLE projects (id INTEGER)";
        let store = SqlStore::in_memory().await.unwrap();
        store.write(&Statements(foreign)).await.unwrap();
        prepare(&store).await.unwrap();
        prepare(&store).await.unwrap();
        assert!(shape(&store).await.contains_key("projects"));
        let store = SqlStore::in_memory().await.unwrap();
        let other = Statements("CREATE TABLE devices (id INTEGER)");
        store.write(&other).await.unwrap();
        let refused = prepare(&store).await.unwrap_err().to_string();
        assert!(refused.contains("table devices"), "{refused}");
    }
}
