//! Makes the tables in a database that has none of them yet, or refuses one that a later release wrote.
//!
//! Other services may have theirs in the same database: only tables of these names are looked at. On a server the same tables are
//! made in its own types: moments are dates, numbers have eight bytes, and text that nobody bounds has no bound.

use std::sync::LazyLock;
use std::time::Duration;

use berth_store::{
    Dialect, Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Work,
};

/// The schema's version.
pub const VERSION: i64 = 2;

/// How long a start waits for another process that makes the schema.
const SCHEMA_WAIT: Duration = Duration::from_secs(60);

/// The table with the version, which is made first and gets its row last.
const MARK: &str = "compute_hosts_schema";

/// All tables and indexes, in the order in which they are made.
const SCHEMA: &str = include_str!("schema.sql");

/// What MySQL and MariaDB are told of each table: texts that differ at all are different, as they are on SQLite and PostgreSQL,
/// by letter case, accent or a blank at the end. Each reads its own comment.
const MYSQL_TABLE: &str = ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 \
     COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;\n";

/// All of the schema in the words of a database.
fn schema(dialect: Dialect) -> &'static str {
    static POSTGRES: LazyLock<String> = LazyLock::new(|| {
        of_server(
            "BIGSERIAL PRIMARY KEY",
            "TIMESTAMP WITHOUT TIME ZONE",
            "TEXT",
        )
    });
    static MYSQL: LazyLock<String> = LazyLock::new(|| {
        of_server(
            "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
            "DATETIME(6)",
            "MEDIUMTEXT",
        )
        .replace("\n);\n", &format!("\n{MYSQL_TABLE}"))
    });
    match dialect {
        Dialect::Sqlite => SCHEMA,
        Dialect::Postgres => &POSTGRES,
        Dialect::MySql => &MYSQL,
    }
}

fn of_server(id: &str, moment: &str, text: &str) -> String {
    SCHEMA
        .replace("CREATE INDEX IF NOT EXISTS ", "CREATE INDEX ")
        .replace(
            "    id INTEGER NOT NULL PRIMARY KEY",
            &format!("    id {id}"),
        )
        .replace("INTEGER", "BIGINT")
        .replace("VARCHAR(26)", moment)
        .replace(" TEXT", &format!(" {text}"))
}

/// Why a database is not ready.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema is at another version.
    #[error(
        "the database is at version {found} of the compute hosts' schema; this release knows version {VERSION}: start the release \
         that wrote it, or name another database"
    )]
    OtherVersion {
        /// What `compute_hosts_schema` says; 0 when it has no row.
        found: i64,
    },
    /// A table of another program has the name of one of these.
    #[error(
        "the database has a table {table} of something else (Nova's have such names); name another database"
    )]
    NotOurs {
        /// Its name.
        table: &'static str,
    },
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

/// Makes the tables where there are none, and checks them where they are.
///
/// # Errors
/// [`SchemaError`] when they are of another version, are another program's, or the database fails.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    store.write(&Prepare).await
}

struct Prepare;

impl Work for Prepare {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
        let tables = tx.table_names().await?;
        if !tables.contains(MARK) {
            return match names().find(|name| tables.contains(*name)) {
                Some(table) => Err(SchemaError::NotOurs { table }),
                None => Ok(make(tx).await?),
            };
        }
        let sql = Statement::new("SELECT version FROM compute_hosts_schema");
        match tx.row(sql).await?.map(|row| row.int(0)).transpose()? {
            Some(VERSION) => Ok(()),
            Some(found) => Err(SchemaError::OtherVersion { found }),
            // Somebody was killed while it made the tables: MySQL keeps each as it is made.
            None if tx.dialect() == Dialect::MySql => Ok(make(tx).await?),
            None => Err(SchemaError::OtherVersion { found: 0 }),
        }
    }
}

/// The tables of the schema, in the order in which they are made.
fn names() -> impl Iterator<Item = &'static str> {
    let lines = SCHEMA.lines();
    lines.filter_map(|line| {
        let rest = line.strip_prefix("CREATE TABLE IF NOT EXISTS ")?;
        rest.split(' ').next()
    })
}

async fn make(tx: &mut Transaction) -> Result<(), SqlError> {
    let text = schema(tx.dialect());
    if tx.dialect() == Dialect::MySql {
        // One by one. An index may be there from a start that was killed; its table is empty then, and is made anew.
        for name in names().collect::<Vec<_>>().into_iter().rev() {
            if name != MARK {
                tx.execute(Statement::new(format!("DROP TABLE IF EXISTS {name}")))
                    .await?;
            }
        }
        for statement in text.split_terminator(";\n") {
            tx.execute(Statement::new(statement)).await?;
        }
    } else {
        tx.script(text).await?;
    }
    let insert = Statement::new("INSERT INTO compute_hosts_schema (version) VALUES (?)");
    tx.execute(insert.bind(VERSION)).await?;
    Ok(())
}
