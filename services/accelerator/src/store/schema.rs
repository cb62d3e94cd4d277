//! Brings a database to the service's schema, or refuses one that is another's.
//!
//! A SQLite file of an earlier version is brought to this version in one transaction, whatever it lacks of it: the first number
//! stood for several shapes. On a server no earlier version was ever made. There the same tables are made in its own types:
//! moments are dates, numbers have eight bytes, and text that nobody bounds has no bound.

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

/// The columns that earlier versions may lack, by table, and what adds each.
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

/// The tables that version 1 has, in the order in which they are made.
const SCHEMA: &str = include_str!("schema.sql");

/// The tables that earlier versions may lack, made where they are not there: a part of the schema.
const LATER: &str = concat!(
    include_str!("programmings.sql"),
    include_str!("host_changes.sql")
);

/// Indexes that a database of this version may lack: they change what is quick, not what is there.
const INDEXES: &str =
    "CREATE INDEX IF NOT EXISTS accelerator_requests_state ON accelerator_requests (state)";

/// Columns of a bounded type whose text nobody bounds: SQLite does not either.
const UNBOUNDED: [&str; 5] = [
    "    driver_name VARCHAR(255)",
    "    bitstream_id VARCHAR(255)",
    "    subject VARCHAR(255)",
    "    value VARCHAR(255)",
    // Of a request, and not that of a device, by which it is found.
    "    hostname VARCHAR(255),",
];

/// All of the schema in the words of a database.
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
pub enum SchemaError {
    /// The schema is at another version.
    #[error(
        "the database is at version {found} of the accelerator service's schema; this release knows 1 to {VERSION}: \
         start the release that wrote it, or name another database"
    )]
    OtherVersion {
        /// What `accelerator_schema` says.
        found: i64,
    },
    /// The tables are there, and no release left them so.
    #[error("the tables are damaged, or not as Berth makes them: {reason}")]
    Damaged {
        /// What was found, on one line.
        reason: String,
    },
    /// There is a table with the name of one of this service's, and it is another's.
    #[error("the database has a table {table} of something else; name another one")]
    NotOurs {
        table: &'static str,
    },
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

/// Makes the schema in a database that has none of its tables yet, checks it in another. Other services may have theirs beside it.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    store.write(&Prepare).await
}

struct Prepare;

impl Work for Prepare {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
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
                Err(SchemaError::NotOurs { table })
            }
            (VERSION, Dialect::Sqlite) => Ok(tx.script(INDEXES).await?),
            (VERSION, _) => Ok(()),
            (found, Dialect::Sqlite) if BEFORE.contains(&found) => Ok(upgrade(tx).await?),
            (found, _) => Err(match tx.damage().await? {
                // A number that comes out of a damaged page is no word of another release.
                Some(reason) => SchemaError::Damaged { reason },
                None if found > 0 => SchemaError::OtherVersion { found },
                None => SchemaError::Damaged {
                    reason: "accelerator_schema does not say at which version they are".to_owned(),
                },
            }),
        }
    }
}

/// What `accelerator_schema` says; 0 when it has no row.
async fn version(tx: &mut Transaction) -> Result<i64, SqlError> {
    let sql = "SELECT version FROM accelerator_schema";
    let row = tx.row(Statement::new(sql)).await?;
    row.map_or(Ok(0), |row| row.int(0))
}

/// Whether somebody was killed while it made the tables: MySQL keeps each as it is made, and the version is written last. What
/// has a row is none such.
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

/// The tables of the schema, in the order in which they are made.
fn names() -> impl Iterator<Item = &'static str> {
    let lines = schema(Dialect::MySql).lines();
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next())
}

/// Makes the tables. Those that are there were made by half, and go first.
async fn make(tx: &mut Transaction, found: &BTreeSet<String>) -> Result<(), SqlError> {
    let text = schema(tx.dialect());
    if tx.dialect() == Dialect::MySql {
        let made: Vec<_> = names().filter(|name| found.contains(*name)).collect();
        // Who refers to another was made after it.
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

    /// Version 2 as it was.
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
        assert!(matches!(refused, SchemaError::Damaged { .. }), "{refused}");
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
        let beside = "CREATE TABLE projects (id INTEGER)";
        let store = SqlStore::in_memory().await.unwrap();
        store.write(&Statements(beside)).await.unwrap();
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
