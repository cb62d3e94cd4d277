//! `berth placement db sync`, `version` and `check`: the state of a database, its differences from this release's
//! schema, and the upgrade steps.
//!
//! Each step is one transaction. On MariaDB and MySQL every DDL statement commits by itself. There a step checks what
//! already exists, stores its revision last, and can be repeated after an interruption.

use std::collections::VecDeque;
use std::fmt;

use berth_store::{Dialect, SchemaLock, SqlError, SqlStore, Statement, Transaction, Work};

use super::data::{self, IncompleteConsumers};
use super::reflection;
use super::revision::Revision;
use super::shape::{DOUBLED, Difference, Object, ShapeDifference, TableShape, at, differences};
use super::{
    HEAD, INCOMPLETE, PlacementSchemaError, SCHEMA_WAIT, is_half_made, make, revision_row, schema,
};

/// The state of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaVersion {
    /// No tables, or only empty ones from an interrupted creation.
    Empty,
    /// A revision this release knows.
    Known(Revision),
    /// An unknown revision, as in `alembic_version`.
    Unknown(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaStep {
    /// Create all tables at the newest revision.
    Make,
    /// Set the root of this number of providers.
    Roots(u64),
    /// Insert rows for this number of consumers.
    Consumers(u64),
    /// The schema is brought to a revision from the one before.
    To(Revision),
}

impl fmt::Display for SchemaStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make => write!(f, "make the tables, at revision {}", Revision::HEAD),
            Self::Roots(count) => write!(f, "give {count} resource providers their root"),
            Self::Consumers(count) => {
                write!(
                    f,
                    "insert rows for {count} consumers that only have allocations"
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

/// The steps of an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncPlan {
    /// In this order; empty if the schema is current.
    pub steps: Vec<SchemaStep>,
    /// Differences that do not matter and stay.
    pub left: Vec<Difference>,
}

impl SyncPlan {
    /// The plan for a database that does not exist yet.
    #[must_use]
    pub fn of_nothing() -> Self {
        Self {
            steps: vec![SchemaStep::Make],
            left: Vec::new(),
        }
    }
}

/// The state of a database.
///
/// Errors: [`PlacementSchemaError::NotPlacement`] for foreign tables, [`PlacementSchemaError::NoRevision`] without a
/// revision, [`PlacementSchemaError::Incomplete`] after an interrupted copy; or the database fails.
pub async fn version(store: &SqlStore) -> Result<SchemaVersion, PlacementSchemaError> {
    version_in(&mut store.read().await?).await
}

async fn version_in(tx: &mut Transaction) -> Result<SchemaVersion, PlacementSchemaError> {
    let found = tx.table_names().await?;
    if found.is_empty() || is_half_made(tx, &found).await? {
        return Ok(SchemaVersion::Empty);
    }
    if !found.contains("alembic_version") {
        return Err(PlacementSchemaError::NotPlacement);
    }
    let id = revision_row(tx).await?;
    if id == INCOMPLETE {
        return Err(PlacementSchemaError::Incomplete);
    }
    if id.is_empty() {
        return Err(PlacementSchemaError::NoRevision);
    }
    Ok(Revision::of(&id).map_or(SchemaVersion::Unknown(id), SchemaVersion::Known))
}

/// The differences between a database and this release's schema, including row guarantees.
///
/// Errors: [`PlacementSchemaError::OtherRevision`] and [`PlacementSchemaError::UnknownRevision`] for another revision
/// or no tables; [`PlacementSchemaError::NotPlacement`]; or the database fails.
pub async fn compare(store: &SqlStore) -> Result<Vec<Difference>, PlacementSchemaError> {
    let mut tx = store.read().await?;
    match version_in(&mut tx).await? {
        SchemaVersion::Known(Revision::HEAD) => {}
        SchemaVersion::Known(found) => {
            let found = found.id().to_owned();
            return Err(PlacementSchemaError::OtherRevision { found });
        }
        SchemaVersion::Unknown(found) => {
            return Err(PlacementSchemaError::UnknownRevision { found });
        }
        SchemaVersion::Empty => {
            let found = String::new();
            return Err(PlacementSchemaError::OtherRevision { found });
        }
    }
    let found = reflection::read(&mut tx).await?;
    let mut all = differences(&found, &at(Revision::HEAD, tx.dialect()));
    if !all.iter().any(|it| it.problem == ShapeDifference::Missing) {
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
                    problem: ShapeDifference::Rows(count),
                }),
        );
    }
    Ok(all)
}

/// The steps that [`sync`] would run.
///
/// Errors: [`PlacementSchemaError::UnknownRevision`], [`PlacementSchemaError::NotPlacement`],
/// [`PlacementSchemaError::NotAsRevision`] if a required part is missing; or the database fails.
pub async fn plan(store: &SqlStore) -> Result<SyncPlan, PlacementSchemaError> {
    let mut tx = store.read().await?;
    let revision = match version_in(&mut tx).await? {
        SchemaVersion::Empty => return Ok(SyncPlan::of_nothing()),
        SchemaVersion::Known(revision) => revision,
        SchemaVersion::Unknown(found) => {
            return Err(PlacementSchemaError::UnknownRevision { found });
        }
    };
    let found = reflection::read(&mut tx).await?;
    let left = judge(revision, &found, tx.dialect())?;
    let mut steps = Vec::new();
    let roots = data::without_root(&mut tx).await?;
    if roots > 0 {
        steps.push(SchemaStep::Roots(roots));
    }
    let consumers = data::without_row(&mut tx).await?;
    if consumers > 0 {
        steps.push(SchemaStep::Consumers(consumers));
    }
    steps.extend(revision.later().map(SchemaStep::To));
    Ok(SyncPlan { steps, left })
}

/// Compares a schema with a revision, allowing for a partly completed next step.
fn judge(
    revision: Revision,
    found: &TableShape,
    dialect: Dialect,
) -> Result<Vec<Difference>, PlacementSchemaError> {
    let here = at(revision, dialect);
    let next = revision.later().next().unwrap_or(revision);
    let next = at(next, dialect);
    // Objects that the step creates or drops may or may not exist.
    let mut expected = here.clone();
    expected.retain(|object, _| next.contains_key(object) || found.contains_key(object));
    let made = next
        .into_iter()
        .filter(|(object, _)| found.contains_key(object));
    expected.extend(made);
    let (left, wrong): (Vec<_>, Vec<_>) = differences(found, &expected)
        .into_iter()
        .partition(|difference| difference.problem == ShapeDifference::Unknown);
    match wrong.is_empty() {
        true => Ok(left),
        false => Err(PlacementSchemaError::NotAsRevision {
            revision,
            differences: wrong,
        }),
    }
}

/// An upgrade in progress. It holds the schema lock.
pub struct Sync<'a> {
    store: &'a SqlStore,
    owners: IncompleteConsumers,
    lock: SchemaLock,
    steps: VecDeque<SchemaStep>,
    /// See [`SyncPlan::left`].
    pub left: Vec<Difference>,
}

/// Plans the upgrade; [`Sync::step`] runs it.
pub async fn sync(
    store: &SqlStore,
    owners: IncompleteConsumers,
) -> Result<Sync<'_>, PlacementSchemaError> {
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
    /// Runs the next step and returns it; `None` at the end. After an interruption, the next [`sync`] continues.
    pub async fn step(&mut self) -> Result<Option<SchemaStep>, PlacementSchemaError> {
        let Some(step) = self.steps.pop_front() else {
            return Ok(None);
        };
        self.lock.check().await?;
        let doing = SyncStep {
            step,
            owners: &self.owners,
        };
        self.store.write(&doing).await?;
        Ok(Some(step))
    }
}

struct SyncStep<'a> {
    step: SchemaStep,
    owners: &'a IncompleteConsumers,
}

impl Work for SyncStep<'_> {
    type Output = ();
    type Error = PlacementSchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), PlacementSchemaError> {
        let revision = match self.step {
            SchemaStep::Make => {
                let found = tx.table_names().await?;
                return Ok(make(tx, &found, HEAD).await?);
            }
            SchemaStep::Roots(_) => return data::fill_roots(tx).await,
            SchemaStep::Consumers(_) => return Ok(data::fill_consumers(tx, self.owners).await?),
            SchemaStep::To(revision) => revision,
        };
        match revision {
            Revision::Initial => {}
            // Again: rows may have been added since.
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

/// SQLite can add a foreign key only together with its column. The table is otherwise left as it is, because its owner
/// may have changed it.
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
