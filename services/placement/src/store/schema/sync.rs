//! `berth placement db sync`, `version` and `check`: what a database is at, what keeps it from this release's schema, and the
//! steps to it.
//!
//! A step is one transaction. On MariaDB and MySQL each statement that changes the schema is one by itself, so there a step
//! looks at what is there before it does anything, writes its revision last, and can be done again from wherever it was left.

use std::collections::VecDeque;
use std::fmt;

use berth_store::{Dialect, SchemaLock, SqlError, SqlStore, Statement, Transaction, Work};

use super::data::{self, IncompleteConsumers};
use super::reflection;
use super::revision::Revision;
use super::shape::{DOUBLED, Difference, Object, Problem, Shape, at, differences};
use super::{HEAD, INCOMPLETE, SCHEMA_WAIT, SchemaError, is_half_made, make, revision_row, schema};

/// What a database is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// It has no tables, or none but empty ones: somebody was killed while it made them.
    Empty,
    /// A revision this release knows.
    Known(Revision),
    /// Another one, in the words of `alembic_version`.
    Unknown(String),
}

/// A step on the way to this release's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All tables are made, at the newest revision.
    Make,
    /// So many providers are given a root.
    Roots(u64),
    /// So many consumers that have allocations are given a row.
    Consumers(u64),
    /// The schema is brought to a revision from the one before.
    To(Revision),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make => write!(f, "make the tables, at revision {}", Revision::HEAD),
            Self::Roots(count) => write!(f, "give {count} resource providers their root"),
            Self::Consumers(count) => {
                write!(
                    f,
                    "give {count} consumers of allocations a row of their own"
                )
            }
            Self::To(revision) => {
                let what = match revision {
                    Revision::Initial => "the tables",
                    Revision::Roots => "every resource provider has its root",
                    Revision::Consumers => "every consumer of allocations has its row",
                    Revision::ConsumerTypes => "add consumer_types and consumers.consumer_type_id",
                    Revision::FewerIndexes => "drop five indexes that unique keys are already",
                };
                write!(f, "upgrade to revision {revision}: {what}")
            }
        }
    }
}

/// What there is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order; none where all is as it should be.
    pub steps: Vec<Step>,
    /// What is in the way of nothing and none of Placement's: it is left.
    pub left: Vec<Difference>,
}

impl Plan {
    /// That of a database that is not there yet.
    #[must_use]
    pub fn of_nothing() -> Self {
        Self {
            steps: vec![Step::Make],
            left: Vec::new(),
        }
    }
}

/// What a database is at.
///
/// # Errors
/// [`SchemaError::NotPlacement`] where its tables are others, [`SchemaError::NoRevision`] where none is written down,
/// [`SchemaError::Incomplete`] where rows are still to be copied into them, or the database fails.
pub async fn version(store: &SqlStore) -> Result<Version, SchemaError> {
    version_in(&mut store.read().await?).await
}

async fn version_in(tx: &mut Transaction) -> Result<Version, SchemaError> {
    let found = tx.table_names().await?;
    if found.is_empty() || is_half_made(tx, &found).await? {
        return Ok(Version::Empty);
    }
    if !found.contains("alembic_version") {
        return Err(SchemaError::NotPlacement);
    }
    let id = revision_row(tx).await?;
    if id == INCOMPLETE {
        return Err(SchemaError::Incomplete);
    }
    if id.is_empty() {
        return Err(SchemaError::NoRevision);
    }
    Ok(Revision::of(&id).map_or(Version::Unknown(id), Version::Known))
}

/// In what a database is not as this release's schema has it, rows included that it promises.
///
/// # Errors
/// [`SchemaError::OtherRevision`] and [`SchemaError::UnknownRevision`] where it is at another revision, or has no tables;
/// [`SchemaError::NotPlacement`]; or the database fails.
pub async fn compare(store: &SqlStore) -> Result<Vec<Difference>, SchemaError> {
    let mut tx = store.read().await?;
    match version_in(&mut tx).await? {
        Version::Known(Revision::HEAD) => {}
        Version::Known(found) => {
            let found = found.id().to_owned();
            return Err(SchemaError::OtherRevision { found });
        }
        Version::Unknown(found) => return Err(SchemaError::UnknownRevision { found }),
        Version::Empty => {
            let found = String::new();
            return Err(SchemaError::OtherRevision { found });
        }
    }
    let found = reflection::read(&mut tx).await?;
    let mut all = differences(&found, &at(Revision::HEAD, tx.dialect()));
    if !all.iter().any(|it| it.problem == Problem::Missing) {
        let rows = [
            (
                "resource providers without a root",
                data::without_root(&mut tx).await?,
            ),
            (
                "consumers of allocations without a row",
                data::without_row(&mut tx).await?,
            ),
        ];
        all.extend(
            rows.into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(object, count)| Difference {
                    object: object.to_owned(),
                    problem: Problem::Rows(count),
                }),
        );
    }
    Ok(all)
}

/// What [`sync`] would do.
///
/// # Errors
/// [`SchemaError::UnknownRevision`], [`SchemaError::NotPlacement`], and [`SchemaError::NotAsRevision`] where something is missing
/// that steps need or that no step makes; or the database fails.
pub async fn plan(store: &SqlStore) -> Result<Plan, SchemaError> {
    let mut tx = store.read().await?;
    let revision = match version_in(&mut tx).await? {
        Version::Empty => return Ok(Plan::of_nothing()),
        Version::Known(revision) => revision,
        Version::Unknown(found) => return Err(SchemaError::UnknownRevision { found }),
    };
    let found = reflection::read(&mut tx).await?;
    let left = judge(revision, &found, tx.dialect())?;
    let mut steps = Vec::new();
    let roots = data::without_root(&mut tx).await?;
    if roots > 0 {
        steps.push(Step::Roots(roots));
    }
    let consumers = data::without_row(&mut tx).await?;
    if consumers > 0 {
        steps.push(Step::Consumers(consumers));
    }
    steps.extend(revision.later().map(Step::To));
    Ok(Plan { steps, left })
}

/// Whether a schema is that of a revision, or on its way to the next; what else there is.
fn judge(
    revision: Revision,
    found: &Shape,
    dialect: Dialect,
) -> Result<Vec<Difference>, SchemaError> {
    let here = at(revision, dialect);
    let next = revision.later().next().unwrap_or(revision);
    let next = at(next, dialect);
    // What the step makes or takes away may be there or not.
    let mut expected = here.clone();
    expected.retain(|object, _| next.contains_key(object) || found.contains_key(object));
    let made = next
        .into_iter()
        .filter(|(object, _)| found.contains_key(object));
    expected.extend(made);
    let (left, wrong): (Vec<_>, Vec<_>) = differences(found, &expected)
        .into_iter()
        .partition(|difference| difference.problem == Problem::Unknown);
    match wrong.is_empty() {
        true => Ok(left),
        false => Err(SchemaError::NotAsRevision {
            revision,
            differences: wrong,
        }),
    }
}

/// The way of one database to this release's schema. Nobody else who asks for the lock of the schema is on it meanwhile.
pub struct Sync<'a> {
    store: &'a SqlStore,
    owners: IncompleteConsumers,
    lock: SchemaLock,
    steps: VecDeque<Step>,
    /// See [`Plan::left`].
    pub left: Vec<Difference>,
}

/// Looks at what there is to do; [`Sync::step`] does it.
///
/// # Errors
/// As [`plan`], and where another process has the lock of the schema for a minute.
pub async fn sync(store: &SqlStore, owners: IncompleteConsumers) -> Result<Sync<'_>, SchemaError> {
    let lock = store.schema_lock(SCHEMA_WAIT).await?;
    let plan = plan(store).await?;
    Ok(Sync {
        store,
        owners,
        lock,
        steps: plan.steps.into(),
        left: plan.left,
    })
}

impl Sync<'_> {
    /// Does the next step and tells which it was; none where all are done. What a kill or an error leaves is gone on with by
    /// the next [`sync`].
    pub async fn step(&mut self) -> Result<Option<Step>, SchemaError> {
        let Some(step) = self.steps.pop_front() else {
            return Ok(None);
        };
        self.lock.check().await?;
        let doing = Doing {
            step,
            owners: &self.owners,
        };
        self.store.write(&doing).await?;
        Ok(Some(step))
    }
}

struct Doing<'a> {
    step: Step,
    owners: &'a IncompleteConsumers,
}

impl Work for Doing<'_> {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
        let revision = match self.step {
            Step::Make => {
                let found = tx.table_names().await?;
                return Ok(make(tx, &found, HEAD).await?);
            }
            Step::Roots(_) => return data::fill_roots(tx).await,
            Step::Consumers(_) => return Ok(data::fill_consumers(tx, self.owners).await?),
            Step::To(revision) => revision,
        };
        match revision {
            Revision::Initial => {}
            // Once more: somebody may have been there since.
            Revision::Roots => data::fill_roots(tx).await?,
            Revision::Consumers => data::fill_consumers(tx, self.owners).await?,
            Revision::ConsumerTypes => add_consumer_types(tx).await?,
            Revision::FewerIndexes => drop_doubled_indexes(tx).await?,
        }
        let sql = "UPDATE alembic_version SET version_num = ?";
        tx.execute(Statement::new(sql).bind(revision.id())).await?;
        Ok(())
    }
}

/// Of the column that the fourth revision adds.
const INDEX: &str = "consumers_consumer_type_id_idx";

async fn add_consumer_types(tx: &mut Transaction) -> Result<(), SqlError> {
    let found = reflection::read(tx).await?;
    if !found.contains_key(&Object::table("consumer_types")) {
        run(tx, statement(tx.dialect(), "CREATE TABLE consumer_types ")).await?;
    }
    let has = |object: Object| found.contains_key(&object);
    let has_column = has(Object::column("consumers", "consumer_type_id"));
    let has_key = has(Object::foreign_key("consumers", "consumer_type_id"));
    let mut has_index = has(Object::index("consumers", INDEX));
    if tx.dialect() == Dialect::Sqlite {
        match (has_column, has_key) {
            (true, true) => {}
            (false, _) => add_consumer_type_with_key(tx).await?,
            (true, false) => {
                add_key_to_consumer_type(tx, has_index).await?;
                has_index = false;
            }
        }
    } else {
        if !has_column {
            let sql = "ALTER TABLE consumers ADD COLUMN consumer_type_id INTEGER";
            run(tx, sql.to_owned()).await?;
        }
        if !has_key {
            let sql = "ALTER TABLE consumers ADD CONSTRAINT consumers_consumer_type_id_fkey \
                       FOREIGN KEY (consumer_type_id) REFERENCES consumer_types (id)";
            run(tx, sql.to_owned()).await?;
        }
    }
    if !has_index {
        let create = format!("CREATE INDEX {INDEX} ");
        run(tx, statement(tx.dialect(), &create)).await?;
    }
    Ok(())
}

async fn add_consumer_type_with_key(tx: &mut Transaction) -> Result<(), SqlError> {
    let sql = "ALTER TABLE consumers ADD COLUMN consumer_type_id INTEGER \
               CONSTRAINT consumers_consumer_type_id_fkey REFERENCES consumer_types (id)";
    run(tx, sql.to_owned()).await
}

/// SQLite takes a key into a table with its column alone. The table stays as it is otherwise: its owner may have put something of
/// his own there.
async fn add_key_to_consumer_type(tx: &mut Transaction, has_index: bool) -> Result<(), SqlError> {
    if has_index {
        run(tx, format!("DROP INDEX {INDEX}")).await?;
    }
    let aside = "ALTER TABLE consumers RENAME COLUMN consumer_type_id TO berth_old_type_id";
    run(tx, aside.to_owned()).await?;
    add_consumer_type_with_key(tx).await?;
    for sql in [
        "UPDATE consumers SET consumer_type_id = berth_old_type_id",
        "ALTER TABLE consumers DROP COLUMN berth_old_type_id",
    ] {
        run(tx, sql.to_owned()).await?;
    }
    Ok(())
}

async fn drop_doubled_indexes(tx: &mut Transaction) -> Result<(), SqlError> {
    let found = reflection::read(tx).await?;
    for (name, table, _) in DOUBLED {
        if found.contains_key(&Object::index(table, name)) {
            let on = match tx.dialect() {
                Dialect::Sqlite | Dialect::Postgres => String::new(),
                Dialect::MySql => format!(" ON {table}"),
            };
            run(tx, format!("DROP INDEX {name}{on}")).await?;
        }
    }
    Ok(())
}

async fn run(tx: &mut Transaction, sql: String) -> Result<(), SqlError> {
    tx.execute(Statement::new(sql)).await?;
    Ok(())
}

/// The one of the schema's statements that begins so.
fn statement(dialect: Dialect, head: &str) -> String {
    let mut all = schema(dialect).split(";\n").map(str::trim);
    let found = all.find(|statement| statement.starts_with(head));
    found.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_makes_or_takes_away_may_be_there_or_not() {
        let dialect = Dialect::MySql;
        let before = at(Revision::Consumers, dialect);
        assert_eq!(judge(Revision::Consumers, &before, dialect).unwrap(), []);
        let after = at(Revision::ConsumerTypes, dialect);
        let mut half = before.clone();
        for (object, description) in &after {
            half.insert(object.clone(), description.clone());
            let left = judge(Revision::Consumers, &half, dialect);
            assert_eq!(left.unwrap(), [], "{object}");
        }
        let mut half = after;
        for (name, table, _) in DOUBLED {
            half.remove(&Object::index(table, name));
            assert_eq!(judge(Revision::ConsumerTypes, &half, dialect).unwrap(), []);
        }
    }

    #[test]
    fn what_no_step_makes_is_refused_and_what_is_anothers_is_left() {
        let dialect = Dialect::Postgres;
        let mut found = at(Revision::Roots, dialect);
        found.insert(Object::index("users", "mine"), "(external_id)".to_owned());
        let left = judge(Revision::Roots, &found, dialect).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
        found.remove(&Object::column("users", "external_id"));
        let error = judge(Revision::Roots, &found, dialect).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("column external_id of users is missing"),
            "{error}"
        );
    }

    #[test]
    fn each_statement_that_steps_take_from_the_schema_is_there() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql] {
            for head in [
                "CREATE TABLE consumer_types ",
                "CREATE INDEX consumers_consumer_type_id_idx ",
            ] {
                assert!(!statement(dialect, head).is_empty(), "{head}");
            }
        }
    }
}
