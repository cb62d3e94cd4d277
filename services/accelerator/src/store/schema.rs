//! Brings a database to the service's schema, or refuses one that is another's.

use berth_store::{Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Work};

/// The schema's version.
pub const VERSION: i64 = 1;

const SCHEMA: &str = include_str!("schema.sql");

/// Why a database is not ready.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema is at another version.
    #[error(
        "the database is at version {found} of the accelerator service's schema, this release needs {VERSION}"
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
        if found == VERSION {
            Ok(())
        } else {
            Err(SchemaError::OtherVersion { found })
        }
    }
}
