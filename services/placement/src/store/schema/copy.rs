//! `berth placement db copy`: all rows of one database into another, of any kind.
//!
//! Until the last transaction the new one is at no revision that anybody knows ([`INCOMPLETE`]), and is not served; a copy
//! that was killed is begun anew. The old one is only read, in one transaction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_store::{
    Dialect, Disposition, Moment, Retryable, Row, SchemaLock, SqlError, SqlStore, Statement,
    Transaction, Value, Work, sql::placeholders,
};
use sha2::{Digest as _, Sha256};

use super::revision::Revision;
use super::shape::{Difference, Object, Part, Problem, Shape, at};
use super::sync::{Version, compare, version};
use super::{INCOMPLETE, SCHEMA_WAIT, SchemaError, make, tables};

/// The tables, those before that others refer to.
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
    From(#[source] SchemaError),
    /// It is not as its revision says.
    #[error(
        "the database that is copied is not as its schema revision has it: {}",
        super::few(differences)
    )]
    Differs {
        /// In what.
        differences: Vec<Difference>,
    },
    /// The new database has something in it.
    #[error("the database that is copied to is not empty: it is at schema revision {revision}")]
    NotEmpty {
        /// What it is at.
        revision: String,
    },
    /// The new database cannot be made.
    #[error("the schema of the database that is copied to cannot be made")]
    To(#[source] SchemaError),
    /// A table was not read or not written.
    #[error("table {table} cannot be copied")]
    Table {
        /// Its name.
        table: &'static str,
        /// Why.
        #[source]
        source: SqlError,
    },
    /// The new database takes two names for the same, which are two in the old.
    #[error(
        "table {table} cannot be copied: two of its rows have names that are one to the new database (case, accents)"
    )]
    Alike {
        /// Its name.
        table: &'static str,
        /// In its words.
        #[source]
        source: SqlError,
    },
    /// What was written reads otherwise.
    #[error(
        "table {table} came over with {to} rows of digest {to_digest}, and has {from} of digest {from_digest}: something does not \
         fit into the new database"
    )]
    Unequal {
        /// Its name.
        table: &'static str,
        /// Rows in the old database.
        from: u64,
        /// Their digest.
        from_digest: String,
        /// Rows in the new one.
        to: u64,
        /// Their digest.
        to_digest: String,
    },
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
pub struct Copied {
    /// Its name.
    pub table: &'static str,
    /// Its rows.
    pub rows: u64,
    /// SHA-256 over all that stands in them, in the order of their keys, in hexadecimal digits.
    pub digest: String,
}

/// A copy on its way. Dropped before it is complete, it leaves a database that is not served.
pub struct Copy<'a> {
    from: Transaction,
    to: &'a SqlStore,
    lock: SchemaLock,
    precision: Precision,
    left: VecDeque<&'static str>,
    copied: Vec<Copied>,
    /// Tables and columns that are none of Placement's; their rows are not copied.
    pub ignored: Vec<Difference>,
}

/// Looks whether the one can be copied and the other is empty, and makes the schema there.
///
/// # Errors
/// [`CopyError::From`], [`CopyError::Differs`], [`CopyError::NotEmpty`] and [`CopyError::To`].
pub async fn copy<'a>(from: &SqlStore, to: &'a SqlStore) -> Result<Copy<'a>, CopyError> {
    let (ignored, differences): (Vec<_>, Vec<_>) = compare(from)
        .await
        .map_err(CopyError::From)?
        .into_iter()
        .partition(|it| it.problem == Problem::Unknown);
    if !differences.is_empty() {
        return Err(CopyError::Differs { differences });
    }
    let failed = |error: SqlError| CopyError::To(error.into());
    let lock = to.schema_lock(SCHEMA_WAIT).await.map_err(failed)?;
    can_be_copied_to(to).await?;
    to.write(&Begin).await.map_err(CopyError::To)?;
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

/// Whether a database is empty, or a copy into it was not completed.
///
/// # Errors
/// [`CopyError::NotEmpty`] and [`CopyError::To`].
pub async fn can_be_copied_to(to: &SqlStore) -> Result<(), CopyError> {
    match version(to).await {
        Ok(Version::Empty) | Err(SchemaError::Incomplete) => Ok(()),
        Ok(Version::Known(revision)) => Err(CopyError::NotEmpty {
            revision: revision.to_string(),
        }),
        Ok(Version::Unknown(revision)) => Err(CopyError::NotEmpty { revision }),
        Err(error) => Err(CopyError::To(error)),
    }
}

impl Copy<'_> {
    /// Copies the next table; none where all are.
    ///
    /// # Errors
    /// [`CopyError::Table`], [`CopyError::Alike`]; or the lock was lost.
    pub async fn table(&mut self) -> Result<Option<&Copied>, CopyError> {
        let Some(name) = self.left.pop_front() else {
            return Ok(None);
        };
        self.lock.check().await?;
        let table = Table::of(name);
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
        let mut sum = Sum::default();
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
        // They refer to each other.
        for rows in parents_first(&table, all).chunks(PAGE) {
            let write = self.insert(&table, rows.to_vec());
            self.to.write(&write).await.map_err(failed)?;
        }
        self.copied.push(sum.copied(name));
        Ok(self.copied.last())
    }

    fn insert<'b>(&self, table: &'b Table, rows: Vec<Vec<Value>>) -> Insert<'b> {
        let rows = rows.into_iter().map(|row| {
            let row = row.into_iter().map(|value| self.precision.stored(value));
            row.collect()
        });
        Insert {
            table,
            rows: rows.collect(),
        }
    }

    /// Compares all rows of the new database with what was read of the old, and lets the new one be used from then on.
    ///
    /// # Errors
    /// [`CopyError::Unequal`]; or the database fails.
    pub async fn complete(mut self) -> Result<Vec<Copied>, CopyError> {
        self.lock.check().await?;
        let complete = Complete {
            copied: &self.copied,
            precision: self.precision,
        };
        self.to.write(&complete).await?;
        Ok(self.copied)
    }
}

/// What both databases can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// Doubles and microseconds.
    Fine,
    /// Six digits and whole seconds, as MySQL's `float` and `datetime`.
    Coarse,
}

impl Precision {
    fn of(from: Dialect, to: Dialect) -> Self {
        match from == Dialect::MySql || to == Dialect::MySql {
            true => Self::Coarse,
            false => Self::Fine,
        }
    }

    /// A moment cut to what is kept of it: MySQL would round it, into the future.
    fn stored(self, value: Value) -> Value {
        match (self, value) {
            (Self::Coarse, Value::Moment(moment)) => {
                let micros = moment.as_micros();
                let whole = Moment::from_micros(micros - micros.rem_euclid(1_000_000));
                Value::Moment(whole.unwrap_or(moment))
            }
            (_, value) => value,
        }
    }

    fn text(self, value: &Value) -> String {
        match (self, self.stored(value.clone())) {
            (_, Value::Null) => "-".to_owned(),
            (_, Value::Int(number)) => format!("i{number}"),
            (Self::Coarse, Value::Double(number)) => format!("d{number:.5e}"),
            (Self::Fine, Value::Double(number)) => format!("d{number:e}"),
            (_, Value::Text(text)) => format!("t{}:{text}", text.len()),
            (_, Value::Moment(moment)) => format!("m{}", moment.as_micros()),
        }
    }
}

/// Rows counted, and a digest of what stands in them.
#[derive(Default)]
struct Sum {
    rows: u64,
    digest: Sha256,
}

impl Sum {
    fn add(&mut self, rows: &[Vec<Value>], precision: Precision) {
        for row in rows {
            self.rows += 1;
            for value in row {
                self.digest.update(precision.text(value));
                self.digest.update(b",");
            }
            self.digest.update(b";");
        }
    }

    fn copied(self, table: &'static str) -> Copied {
        let digest = self.digest.finalize();
        Copied {
            table,
            rows: self.rows,
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Double,
    Text,
    Moment,
}

/// A table by its columns, in the order of their names.
struct Table {
    name: &'static str,
    columns: Vec<(String, Kind)>,
    /// Columns of the primary key, by their places among all.
    key: Vec<usize>,
}

impl Table {
    fn of(name: &'static str) -> Self {
        let shape = at(Revision::HEAD, Dialect::Sqlite);
        let columns: Vec<_> = shape
            .iter()
            .filter(|(object, _)| object.table == name)
            .filter_map(|(object, description)| match &object.part {
                Part::Column(column) => Some((column.clone(), kind(description))),
                _ => None,
            })
            .collect();
        Self {
            key: key(name, &shape, &columns),
            name,
            columns,
        }
    }

    /// Rows in the order of their keys, those behind `after`; none at the end.
    async fn page(
        &self,
        tx: &mut Transaction,
        after: Option<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let dialect = tx.dialect();
        let columns = self.columns.iter().map(|(name, kind)| match kind {
            Kind::Double => dialect.double(name),
            _ => name.clone(),
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let keys: Vec<&str> = self
            .key
            .iter()
            .map(|at| self.columns[*at].0.as_str())
            .collect();
        let order = keys.join(", ");
        let (behind, values) = match (after, keys.as_slice()) {
            (None, _) => (String::new(), Vec::new()),
            (Some(after), [first, second]) => (
                format!("WHERE {first} > ? OR ({first} = ? AND {second} > ?)"),
                vec![after[0].clone(), after[0].clone(), after[1].clone()],
            ),
            (Some(after), _) => (format!("WHERE {order} > ?"), after),
        };
        let table = self.name;
        let sql = format!("SELECT {columns} FROM {table} {behind} ORDER BY {order} LIMIT {PAGE}");
        let rows = tx.rows(Statement::recurring(sql).bind_all(values)).await?;
        rows.iter().map(|row| self.values(row)).collect()
    }

    fn values(&self, row: &Row) -> Result<Vec<Value>, SqlError> {
        let values = self.columns.iter().enumerate().map(|(at, (_, kind))| {
            Ok(match kind {
                Kind::Int => row.opt_int(at)?.into(),
                Kind::Double => row.double(at)?.into(),
                Kind::Text => row.opt_text(at)?.into(),
                Kind::Moment => row.opt_moment(at)?.into(),
            })
        });
        values.collect()
    }

    fn key_of(&self, row: &[Value]) -> Vec<Value> {
        self.key.iter().map(|at| row[*at].clone()).collect()
    }

    fn place_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| name == column)
    }
}

fn kind(description: &str) -> Kind {
    match description.split([' ', '(']).next() {
        Some("INTEGER") => Kind::Int,
        Some("FLOAT") => Kind::Double,
        Some("DATETIME") => Kind::Moment,
        _ => Kind::Text,
    }
}

fn key(table: &str, shape: &Shape, columns: &[(String, Kind)]) -> Vec<usize> {
    let key = shape.get(&Object::new(table, Part::PrimaryKey));
    let names = key.map_or("", String::as_str).split(", ");
    names
        .filter_map(|name| columns.iter().position(|(column, _)| column == name))
        .collect()
}

/// Providers in an order in which each comes behind its parent and its root. What refers to nothing that is there stands last:
/// the new database says what it is.
fn parents_first(table: &Table, rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let places = ["id", "parent_provider_id", "root_provider_id"].map(|name| table.place_of(name));
    let [Some(id), Some(parent), Some(root)] = places else {
        return rows;
    };
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let mut waiting: BTreeMap<Option<i64>, Vec<Vec<Value>>> = BTreeMap::new();
    let mut ready = VecDeque::new();
    let mut sorted = Vec::with_capacity(rows.len());
    let mut known = BTreeSet::new();
    let missing = |row: &[Value], known: &BTreeSet<Option<i64>>| {
        let own = number(&row[id]);
        let others = [number(&row[parent]), number(&row[root])].into_iter();
        let mut others = others.filter(|other| other.is_some() && *other != own);
        others.find(|other| !known.contains(other))
    };
    ready.extend(rows);
    while let Some(row) = ready.pop_front() {
        match missing(&row, &known) {
            Some(other) => waiting.entry(other).or_default().push(row),
            None => {
                let own = number(&row[id]);
                known.insert(own);
                sorted.push(row);
                ready.extend(waiting.remove(&own).unwrap_or_default());
            }
        }
    }
    sorted.extend(waiting.into_values().flatten());
    sorted
}

/// Makes the tables anew, at [`INCOMPLETE`].
struct Begin;

impl Work for Begin {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
        let found = tables(tx).await?;
        if tx.dialect() != Dialect::MySql {
            // Those of a copy before, each after all that refer to it.
            for table in ORDER.iter().rev().chain(&["alembic_version"]) {
                if found.contains(*table) {
                    tx.execute(Statement::new(format!("DROP TABLE {table}")))
                        .await?;
                }
            }
        }
        Ok(make(tx, &found, INCOMPLETE).await?)
    }
}

struct Insert<'a> {
    table: &'a Table,
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
    copied: &'a [Copied],
    precision: Precision,
}

impl Work for Complete<'_> {
    type Output = ();
    type Error = CopyError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), CopyError> {
        for from in self.copied {
            let table = Table::of(from.table);
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

async fn digest(
    tx: &mut Transaction,
    table: &Table,
    precision: Precision,
) -> Result<Copied, SqlError> {
    let mut sum = Sum::default();
    let mut after = None;
    loop {
        let rows = table.page(tx, after).await?;
        sum.add(&rows, precision);
        after = rows.last().map(|row| table.key_of(row));
        if after.is_none() {
            return Ok(sum.copied(table.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_copied_and_by_its_key() {
        let shape = at(Revision::HEAD, Dialect::Sqlite);
        let all: BTreeSet<_> = shape.keys().map(|object| object.table.as_str()).collect();
        let copied = ORDER.iter().copied().chain(["alembic_version"]);
        assert_eq!(copied.collect::<BTreeSet<_>>(), all);
        for name in ORDER {
            assert!(!Table::of(name).key.is_empty(), "{name}");
        }
        assert_eq!(Table::of("resource_provider_traits").key.len(), 2);
    }

    #[test]
    fn providers_come_behind_their_parents() {
        let table = Table::of("resource_providers");
        let row = |id: i64, parent: Option<i64>, root: i64| {
            let values = table.columns.iter().map(|(name, _)| match name.as_str() {
                "id" => Value::from(id),
                "parent_provider_id" => Value::from(parent),
                "root_provider_id" => Value::from(root),
                _ => Value::Null,
            });
            values.collect::<Vec<_>>()
        };
        let rows = vec![
            row(1, Some(3), 4),
            row(2, None, 2),
            row(3, Some(4), 4),
            row(4, None, 4),
            row(5, Some(9), 9),
        ];
        let sorted = parents_first(&table, rows);
        let id = table.place_of("id").unwrap();
        let ids: Vec<_> = sorted.iter().map(|row| row[id].clone()).collect();
        assert_eq!(ids, [2, 4, 3, 1, 5].map(|id: i64| Value::from(id)));
    }

    #[test]
    fn what_mysql_cannot_hold_is_not_compared() {
        let moment = |micros| Value::Moment(Moment::from_micros(micros).unwrap());
        for (one, other) in [
            (Value::from(1.1), Value::from(1.100_000_02)),
            (moment(1_700_000_000_999_999), moment(1_700_000_000_000_000)),
        ] {
            assert_eq!(Precision::Coarse.text(&one), Precision::Coarse.text(&other));
            assert_ne!(Precision::Fine.text(&one), Precision::Fine.text(&other));
        }
    }
}
