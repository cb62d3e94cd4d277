//! Brings a database to OpenStack Placement's schema, or refuses one that is at another.

use std::collections::BTreeSet;

use berth_store::{
    Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Value, Work,
};

use super::now;
use crate::standard;

/// The alembic revision of the schema.
pub const HEAD: &str = "a082b8bb98d0";

const SCHEMA: &str = include_str!("schema.sql");

/// Why a database is not ready.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema is at another revision.
    #[error(
        "the database is at schema revision {found}, this release needs {HEAD}; upgrade it with `placement-manage db sync`"
    )]
    OtherRevision {
        /// What `alembic_version` says; empty when it has no row.
        found: String,
    },
    /// There are tables, but none of alembic's.
    #[error(
        "the database has tables but no alembic_version: it is not Placement's; name another file"
    )]
    NotPlacement,
    /// The revision is ours, but tables of it are not there.
    #[error(
        "the database lacks {}, which schema revision {HEAD} has; restore it from a backup, or name another file for a new one",
        tables.join(", ")
    )]
    MissingTables {
        /// Their names, in order.
        tables: Vec<&'static str>,
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

/// Makes the schema in an empty database, checks it in another, and adds the standard traits and
/// resource classes that are missing.
///
/// # Errors
/// [`SchemaError`] when the database is at another revision, is not Placement's, or fails.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    store.write(&Prepare).await
}

/// Checks the schema of a database, and changes nothing.
///
/// # Errors
/// As [`prepare`].
pub async fn check(store: &SqlStore) -> Result<(), SchemaError> {
    let mut tx = store.read().await?;
    let found = tables(&mut tx).await?;
    if !found.contains("alembic_version") {
        return Err(SchemaError::NotPlacement);
    }
    check_revision(&mut tx).await?;
    check_tables(&found)
}

struct Prepare;

impl Work for Prepare {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
        let found = tables(tx).await?;
        if found.is_empty() {
            tx.script(SCHEMA).await?;
        } else if found.contains("alembic_version") {
            check_revision(tx).await?;
            check_tables(&found)?;
        } else {
            return Err(SchemaError::NotPlacement);
        }
        add_standard_classes(tx).await?;
        add_standard_traits(tx).await?;
        Ok(())
    }
}

async fn tables(tx: &mut Transaction) -> Result<BTreeSet<String>, SqlError> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    Ok(names(tx, sql).await?.into_iter().collect())
}

/// Nothing is made anew in a database that has been used: what is missing was lost, and its rows with it.
fn check_tables(found: &BTreeSet<String>) -> Result<(), SchemaError> {
    let expected = SCHEMA
        .lines()
        .filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next());
    let tables: Vec<&str> = expected.filter(|name| !found.contains(*name)).collect();
    if tables.is_empty() {
        Ok(())
    } else {
        Err(SchemaError::MissingTables { tables })
    }
}

async fn check_revision(tx: &mut Transaction) -> Result<(), SchemaError> {
    let sql = "SELECT version_num FROM alembic_version";
    let found = match tx.row(Statement::new(sql)).await? {
        Some(row) => row.text(0)?,
        None => String::new(),
    };
    if found == HEAD {
        Ok(())
    } else {
        Err(SchemaError::OtherRevision { found })
    }
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
