//! Creates OpenStack Placement's database schema, or refuses a database at another revision.
//!
//! A start creates the tables in an empty database but never upgrades. Upgrading is done by [`sync()`] while no service
//! is running.

mod copy;
mod data;
mod reflection;
mod revision;
mod shape;
mod sync;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use berth_store::{
    Dialect, Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Value, Work,
};

use super::now;
use crate::standard;

pub use copy::{CopiedTable, Copy, CopyError, can_be_copied_to, copy};
pub use data::IncompleteConsumers;
pub use revision::Revision;
pub use shape::{Difference, ShapeDifference};
pub use sync::{SchemaStep, SchemaVersion, Sync, SyncPlan, compare, plan, sync, version};

/// The alembic revision of the schema.
pub const HEAD: &str = "a082b8bb98d0";

/// The revision while rows are being copied into a database.
const INCOMPLETE: &str = "incomplete-copy";

const SCHEMA: &str = include_str!("schema.sql");

/// How long a start waits for another process that changes the schema.
const SCHEMA_WAIT: Duration = Duration::from_secs(60);

/// The schema in the dialect of a database.
fn schema(dialect: Dialect) -> &'static str {
    static POSTGRES: LazyLock<String> = LazyLock::new(|| {
        SCHEMA
            .replace("\tid INTEGER NOT NULL", "\tid SERIAL NOT NULL")
            .replace("DATETIME", "TIMESTAMP WITHOUT TIME ZONE")
    });
    static MYSQL: LazyLock<String> = LazyLock::new(|| {
        SCHEMA.replace(
            "\tid INTEGER NOT NULL",
            "\tid INTEGER NOT NULL AUTO_INCREMENT",
        )
    });
    match dialect {
        Dialect::Sqlite => SCHEMA,
        Dialect::Postgres => &POSTGRES,
        Dialect::MySql => &MYSQL,
    }
}

/// Why a database is not ready.
#[derive(Debug, thiserror::Error)]
pub enum PlacementSchemaError {
    /// The schema is at an older revision, or incomplete.
    #[error(
        "the database is at schema revision {}, this release needs {HEAD}; bring it there with `berth placement db sync`",
        if found.is_empty() { "none" } else { found }
    )]
    OtherRevision {
        /// The revision in `alembic_version`; empty in an empty database.
        found: String,
    },
    /// The schema is at a revision that this release does not know.
    #[error(
        "the database is at schema revision {found:?}, which this release does not know: it goes up to {HEAD}; a newer release, or \
         another service's?"
    )]
    UnknownRevision {
        /// The revision in `alembic_version`.
        found: String,
    },
    /// `alembic_version` is empty but other tables are not.
    #[error(
        "its alembic_version has no row, so nobody knows at which schema revision it is; bring that row back from a backup, or where \
         you know the revision ({HEAD} is this release's) insert it, and look with `berth placement db check`"
    )]
    NoRevision,
    /// A copy into the database was interrupted.
    #[error(
        "a copy into the database was not completed; empty it, or copy into it again with `berth placement db copy`"
    )]
    Incomplete,
    /// The tables do not match the revision.
    #[error(
        "the database says that it is at schema revision {revision}, and is not: {}",
        few(differences)
    )]
    NotAsRevision {
        revision: Revision,
        differences: Vec<Difference>,
    },
    /// Providers with an unknown root.
    #[error(
        "no root can be found for {} resource providers: a parent does not exist, or they are parents of each other: {}",
        providers.len(), few(providers)
    )]
    NoRoot { providers: Vec<String> },
    /// Tables exist without `alembic_version`.
    #[error(
        "the database has tables but no alembic_version: it is not Placement's; name another file"
    )]
    NotPlacement,
    /// Tables of the current revision are missing.
    #[error(
        "the database lacks {}, which schema revision {HEAD} has; restore it from a backup, or name another file for a new one",
        tables.join(", ")
    )]
    MissingTables {
        /// Their names, in order.
        tables: Vec<&'static str>,
    },
    #[error("the schema cannot be read or created")]
    Sql(#[from] SqlError),
}

impl Retryable for PlacementSchemaError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            _ => Disposition::Fatal,
        }
    }
}

/// The first of many.
fn few(all: &[impl ToString]) -> String {
    const FEW: usize = 8;
    let mut texts: Vec<_> = all.iter().take(FEW).map(ToString::to_string).collect();
    if all.len() > FEW {
        texts.push(format!("and {} more", all.len() - FEW));
    }
    texts.join("; ")
}

/// Creates the schema in an empty database, checks an existing one, and inserts missing standard
/// traits and resource classes.
pub async fn prepare(store: &SqlStore) -> Result<(), PlacementSchemaError> {
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    store.write(&PreparePlacementSchema).await
}

/// Checks the schema of a database, and changes nothing.
pub async fn check(store: &SqlStore) -> Result<(), PlacementSchemaError> {
    let mut tx = store.read().await?;
    let found = tx.table_names().await?;
    if is_half_made(&mut tx, &found).await? {
        let found = String::new();
        return Err(PlacementSchemaError::OtherRevision { found });
    }
    if !found.contains("alembic_version") {
        return Err(PlacementSchemaError::NotPlacement);
    }
    check_revision(&mut tx).await?;
    check_tables(&found)
}

struct PreparePlacementSchema;

impl Work for PreparePlacementSchema {
    type Output = ();
    type Error = PlacementSchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), PlacementSchemaError> {
        let found = tx.table_names().await?;
        if found.is_empty() || is_half_made(tx, &found).await? {
            make(tx, &found, HEAD).await?;
        } else if found.contains("alembic_version") {
            check_revision(tx).await?;
            check_tables(&found)?;
        } else {
            return Err(PlacementSchemaError::NotPlacement);
        }
        add_standard_classes(tx).await?;
        add_standard_traits(tx).await?;
        Ok(())
    }
}

/// Whether an earlier creation was interrupted: MySQL commits each table separately, and OpenStack's tool creates
/// alembic_version first. Tables with rows are complete.
async fn is_half_made(tx: &mut Transaction, found: &BTreeSet<String>) -> Result<bool, SqlError> {
    if found.is_empty() || !found.iter().all(|name| expected().any(|it| it == name)) {
        return Ok(false);
    }
    for name in found {
        let any = format!("SELECT 1 FROM {name} LIMIT 1");
        if tx.row(Statement::new(any)).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Creates the tables at a revision. The tables in `found` are dropped first: they are empty leftovers of an
/// interrupted creation, or of an incomplete copy.
async fn make(
    tx: &mut Transaction,
    found: &BTreeSet<String>,
    revision: &str,
) -> Result<(), SqlError> {
    let made: Vec<_> = expected().filter(|name| found.contains(*name)).collect();
    // Tables that refer to others were created after them.
    for name in made.into_iter().rev() {
        tx.execute(Statement::new(format!("DROP TABLE {name}")))
            .await?;
    }
    if tx.dialect() != Dialect::MySql {
        tx.script(schema(tx.dialect())).await?;
        let set = Statement::new("UPDATE alembic_version SET version_num = ?").bind(revision);
        tx.execute(set).await?;
        return Ok(());
    }
    for statement in schema(tx.dialect()).split(";\n") {
        // The tables that come before this statement.
        let lines = statement
            .trim()
            .lines()
            .filter(|line| !line.starts_with("--"));
        let statement = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
        let is_mark = statement.starts_with("INSERT INTO alembic_version");
        // An interruption from here on leaves tables, so the revision must not claim to be current yet.
        let begins = statement.starts_with("CREATE TABLE alembic_version");
        if !is_mark && !statement.is_empty() {
            tx.execute(Statement::new(statement)).await?;
        }
        if (begins && revision == INCOMPLETE) || (is_mark && revision != INCOMPLETE) {
            let sql = "INSERT INTO alembic_version (version_num) VALUES (?)";
            tx.execute(Statement::new(sql).bind(revision)).await?;
        }
    }
    Ok(())
}

/// The tables of the schema.
fn expected() -> impl Iterator<Item = &'static str> {
    let lines = SCHEMA.lines();
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next())
}

/// Missing tables of a used database are not created again: their rows were lost.
fn check_tables(found: &BTreeSet<String>) -> Result<(), PlacementSchemaError> {
    let tables: Vec<&str> = expected().filter(|name| !found.contains(*name)).collect();
    if tables.is_empty() {
        Ok(())
    } else {
        Err(PlacementSchemaError::MissingTables { tables })
    }
}

async fn check_revision(tx: &mut Transaction) -> Result<(), PlacementSchemaError> {
    let found = revision_row(tx).await?;
    match Revision::of(&found) {
        Some(Revision::HEAD) => Ok(()),
        None if found == INCOMPLETE => Err(PlacementSchemaError::Incomplete),
        None if found.is_empty() => Err(PlacementSchemaError::NoRevision),
        None => Err(PlacementSchemaError::UnknownRevision { found }),
        Some(_) => Err(PlacementSchemaError::OtherRevision { found }),
    }
}

/// The revision in `alembic_version`; empty without a row.
async fn revision_row(tx: &mut Transaction) -> Result<String, SqlError> {
    let sql = "SELECT version_num FROM alembic_version";
    let row = tx.row(Statement::new(sql)).await?;
    row.map_or(Ok(String::new()), |row| row.text(0))
}

async fn add_standard_classes(tx: &mut Transaction) -> Result<(), SqlError> {
    let known = names(tx, "SELECT name FROM resource_classes").await?;
    let rows: Vec<[Value; 3]> = standard::resource_classes()
        .filter(|(_, name)| !known.iter().any(|known| known == name))
        .map(|(id, name)| [now(), Value::from(id), Value::from(name)])
        .collect();
    let head = "INSERT INTO resource_classes (created_at, id, name) VALUES";
    tx.insert_rows(head, rows, "").await?;
    Ok(())
}

async fn add_standard_traits(tx: &mut Transaction) -> Result<(), SqlError> {
    let known: BTreeSet<String> = names(tx, "SELECT name FROM traits")
        .await?
        .into_iter()
        .collect();
    let rows: Vec<[Value; 2]> = standard::traits()
        .filter(|name| !known.contains(*name))
        .map(|name| [now(), Value::from(name)])
        .collect();
    let head = "INSERT INTO traits (created_at, name) VALUES";
    tx.insert_rows(head, rows, "").await?;
    Ok(())
}

async fn names(tx: &mut Transaction, sql: &'static str) -> Result<Vec<String>, SqlError> {
    let rows = tx.rows(Statement::new(sql)).await?;
    rows.iter().map(|row| row.text(0)).collect()
}
