//! `berth placement db copy`: copies all rows of one database into another, of any kind.
//!
//! Until the last transaction the target is at the revision [`INCOMPLETE`] and is not served; an interrupted copy is
//! started again. The source is only read, in one transaction.

mod digest;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use berth_store::{
    Dialect, Disposition, Retryable, SchemaLock, SqlError, SqlStore, Statement, Transaction, Value,
    Work, sql::placeholders,
};

use self::digest::{Precision, TableDigest, digest};
use self::table::{CopyTable, parents_first};
use super::revision::Revision;
use super::shape::{Difference, ShapeDifference};
use super::sync::{SchemaVersion, compare, version};
use super::{INCOMPLETE, PlacementSchemaError, SCHEMA_WAIT, make, revision_row};

/// The tables, referenced tables first.
const ORDER: [&str; 12] = [
    "resource_classes",
    "traits",
    "placement_aggregates",
    "projects",
    "users",
    "consumer_types",
    "resource_providers",
    "inventories",
    "resource_provider_traits",
    "resource_provider_aggregates",
    "consumers",
    "allocations",
];

/// Rows that are read and written at a time.
const PAGE: usize = 2_000;

/// Why a database is not copied, or the copy not complete.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The old database cannot be copied.
    #[error("the database that is copied is not as it should be")]
    From(#[source] PlacementSchemaError),
    /// The source does not match its revision.
    #[error(
        "the database that is copied is not as its schema revision has it: {}",
        super::few(differences)
    )]
    Differs { differences: Vec<Difference> },
    /// The target is not empty.
    #[error("the database that is copied to is not empty: it is at schema revision {revision}")]
    NotEmpty { revision: String },
    /// The schema of the target cannot be created.
    #[error("the schema of the database that is copied to cannot be made")]
    To(#[source] PlacementSchemaError),
    /// A table was not read or not written.
    #[error("table {table} cannot be copied")]
    Table {
        table: &'static str,
        #[source]
        source: SqlError,
    },
    /// Two names of the source are equal in the target.
    #[error(
        "table {table} cannot be copied: two of its rows have names that are one to the new database (case, accents)"
    )]
    Alike {
        table: &'static str,
        #[source]
        source: SqlError,
    },
    /// The copied rows differ from the source.
    #[error(
        "table {table} came over with {to} rows of digest {to_digest}, and has {from} of digest {from_digest}: something does not \
         fit into the new database"
    )]
    Unequal {
        table: &'static str,
        /// Rows in the old database.
        from: u64,
        from_digest: String,
        /// Rows in the new one.
        to: u64,
        to_digest: String,
    },
    /// The connection was lost during the last commit, so its outcome is unknown.
    #[error("all rows are copied and equal; whether the target was marked as complete is unknown")]
    Unknown(#[source] SqlError),
    /// The last step failed.
    #[error("the copy cannot be completed")]
    Sql(#[from] SqlError),
}

impl Retryable for CopyError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

/// A table that was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedTable {
    pub table: &'static str,
    pub rows: u64,
    /// SHA-256 of the rows in key order, in hexadecimal digits.
    pub digest: String,
}

/// A copy in progress. If dropped before completion, the target is not served.
pub struct Copy<'a> {
    from: Transaction,
    to: &'a SqlStore,
    lock: SchemaLock,
    precision: Precision,
    left: VecDeque<&'static str>,
    copied: Vec<CopiedTable>,
    /// Tables and columns that are none of Placement's; their rows are not copied.
    pub ignored: Vec<Difference>,
}

/// Checks that the source can be copied and the target is empty, and creates the schema there.
pub async fn copy<'a>(from: &SqlStore, to: &'a SqlStore) -> Result<Copy<'a>, CopyError> {
    let (ignored, differences): (Vec<_>, Vec<_>) = compare(from)
        .await
        .map_err(CopyError::From)?
        .into_iter()
        .partition(|it| it.problem == ShapeDifference::Unknown);
    if !differences.is_empty() {
        return Err(CopyError::Differs { differences });
    }
    let failed = |error: SqlError| CopyError::To(error.into());
    let lock = to.schema_lock(SCHEMA_WAIT).await.map_err(failed)?;
    can_be_copied_to(to).await?;
    to.write(&BeginCopy).await.map_err(CopyError::To)?;
    Ok(Copy {
        precision: Precision::of(from.dialect(), to.dialect()),
        from: from.read().await?,
        to,
        lock,
        left: ORDER.into(),
        copied: Vec::new(),
        ignored,
    })
}

/// Whether a database is empty, or holds an incomplete copy.
pub async fn can_be_copied_to(to: &SqlStore) -> Result<(), CopyError> {
    match version(to).await {
        Ok(SchemaVersion::Empty) | Err(PlacementSchemaError::Incomplete) => Ok(()),
        Ok(SchemaVersion::Known(revision)) => Err(CopyError::NotEmpty {
            revision: revision.to_string(),
        }),
        Ok(SchemaVersion::Unknown(revision)) => Err(CopyError::NotEmpty { revision }),
        Err(error) => Err(CopyError::To(error)),
    }
}

impl Copy<'_> {
    /// Copies the next table; `None` after the last.
    pub async fn table(&mut self) -> Result<Option<&CopiedTable>, CopyError> {
        let Some(name) = self.left.pop_front() else {
            return Ok(None);
        };
        self.lock.check().await?;
        let table = CopyTable::of(name);
        let failed = |source| match source {
            source @ SqlError::Duplicate(_) => CopyError::Alike {
                table: name,
                source,
            },
            source => CopyError::Table {
                table: name,
                source,
            },
        };
        let mut sum = TableDigest::default();
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let rows = table.page(&mut self.from, after).await.map_err(failed)?;
            sum.add(&rows, self.precision);
            after = rows.last().map(|row| table.key_of(row));
            if name == "resource_providers" {
                all.extend(rows);
            } else {
                let write = self.insert(&table, rows);
                self.to.write(&write).await.map_err(failed)?;
            }
            if after.is_none() {
                break;
            }
        }
        // Rows of this table refer to each other.
        for rows in parents_first(&table, all).chunks(PAGE) {
            let write = self.insert(&table, rows.to_vec());
            self.to.write(&write).await.map_err(failed)?;
        }
        self.copied.push(sum.copied(name));
        Ok(self.copied.last())
    }

    fn insert<'b>(&self, table: &'b CopyTable, rows: Vec<Vec<Value>>) -> Insert<'b> {
        let rows = rows.into_iter().map(|row| {
            let row = row.into_iter().map(|value| self.precision.stored(value));
            row.collect()
        });
        Insert {
            table,
            rows: rows.collect(),
        }
    }

    /// Compares all rows of the target with what was read from the source, and enables the target.
    pub async fn complete(mut self) -> Result<Vec<CopiedTable>, CopyError> {
        self.lock.check().await?;
        let complete = Complete {
            copied: &self.copied,
            precision: self.precision,
        };
        match self.to.write(&complete).await {
            Ok(()) => Ok(self.copied),
            Err(CopyError::Sql(lost @ SqlError::OutcomeUnknown(_))) => {
                match self.to.write(&CopyOutcome).await {
                    Ok(id) if id == Revision::HEAD.id() => Ok(self.copied),
                    Ok(_) => Err(CopyError::Sql(lost)),
                    Err(_) => Err(CopyError::Unknown(lost)),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// Creates the tables again, at [`INCOMPLETE`].
struct BeginCopy;

impl Work for BeginCopy {
    type Output = ();
    type Error = PlacementSchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), PlacementSchemaError> {
        let found = tx.table_names().await?;
        Ok(make(tx, &found, INCOMPLETE).await?)
    }
}

struct Insert<'a> {
    table: &'a CopyTable,
    rows: Vec<Vec<Value>>,
}

impl Work for Insert<'_> {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let width = self.table.columns.len();
        let names = self.table.columns.iter().map(|(name, _)| name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        for rows in self.rows.chunks(500) {
            let group = format!("({})", placeholders(width));
            let groups = vec![group.as_str(); rows.len()].join(",");
            let sql = format!("INSERT INTO {} ({names}) VALUES {groups}", self.table.name);
            let statement = Statement::new(sql).bind_all(rows.iter().flatten().cloned());
            tx.execute(statement).await?;
        }
        Ok(())
    }
}

struct Complete<'a> {
    copied: &'a [CopiedTable],
    precision: Precision,
}

impl Work for Complete<'_> {
    type Output = ();
    type Error = CopyError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), CopyError> {
        for from in self.copied {
            let table = CopyTable::of(from.table);
            let to = digest(tx, &table, self.precision).await?;
            if to != *from {
                return Err(CopyError::Unequal {
                    table: from.table,
                    from: from.rows,
                    from_digest: from.digest.clone(),
                    to: to.rows,
                    to_digest: to.digest,
                });
            }
            if tx.dialect() == Dialect::Postgres && table.place_of("id").is_some() {
                let name = table.name;
                let sql = format!(
                    "SELECT setval(pg_get_serial_sequence('{name}', 'id'), GREATEST(MAX(id), 1), COALESCE(MAX(id), 0) > 0) \
                     FROM {name}"
                );
                tx.row(Statement::new(sql)).await?;
            }
        }
        let sql = "UPDATE alembic_version SET version_num = ?";
        let statement = Statement::new(sql).bind(Revision::HEAD.id());
        tx.execute(statement).await?;
        Ok(())
    }
}

/// Determines the outcome of a commit with a lost answer.
struct CopyOutcome;

impl Work for CopyOutcome {
    type Output = String;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<String, SqlError> {
        // Waits for that transaction to end.
        let sql = "UPDATE alembic_version SET version_num = version_num";
        tx.execute(Statement::new(sql)).await?;
        revision_row(tx).await
    }
}
