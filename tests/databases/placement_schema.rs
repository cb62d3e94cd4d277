//! Placement's schema: created from nothing or upgraded from an older revision, it must equal the result of OpenStack's
//! own migrations, and obstacles must be reported.

use std::sync::Arc;

use berth_placement::{
    Difference, IncompleteConsumers, PlacementSchemaError, Revision, SchemaStep, SchemaVersion,
    ShapeDifference, check, compare, plan, prepare, sync, version,
};
use berth_store::{Dialect, SqlOptions, SqlStore, Statement};
use berth_tests::peer::{MariaDb, PlacementSchema};
use serde_json::{Value, json};

use crate::databases::test_database::TestDatabase;
use crate::databases::work::{Execute, Script};

mod everywhere {
    use super::{
        a_database_without_its_revision_has_one_answer,
        a_schema_created_from_nothing_equals_that_of_openstacks_own_migrations,
        differences_from_the_revision_are_reported,
        every_older_revision_is_upgraded_to_the_newest_with_its_rows,
        rows_that_no_root_can_be_found_for_stop_the_upgrade_and_are_named, views_are_no_tables,
    };
    on_all! {
        a_schema_created_from_nothing_equals_that_of_openstacks_own_migrations
        every_older_revision_is_upgraded_to_the_newest_with_its_rows
        rows_that_no_root_can_be_found_for_stop_the_upgrade_and_are_named
        differences_from_the_revision_are_reported
        a_database_without_its_revision_has_one_answer
        views_are_no_tables
    }
}

/// Rows of every kind that a later revision refuses: providers without a root (2 is below 1), and allocations with a
/// consumer that has no row, one of them with two allocations.
pub(crate) const ROWS: &str = "
    INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id, parent_provider_id) VALUES
        ('2018-01-01 00:00:00', 1, '4e8e5957-649f-477b-9e5b-f1f75b21c03c', 'host', 3, NULL, NULL),
        ('2018-01-01 00:00:00', 2, '5e8e5957-649f-477b-9e5b-f1f75b21c03c', 'gpu', 1, NULL, 1),
        ('2018-01-01 00:00:00', 3, '6e8e5957-649f-477b-9e5b-f1f75b21c03c', 'whole', 7, 3, NULL);
    INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size,
        allocation_ratio) VALUES (1, 0, 64, 2, 1, 64, 1, 16.0), (2, 8, 16, 0, 1, 16, 1, 1.5);
    INSERT INTO resource_classes (id, name) VALUES (10000, 'CUSTOM_OLD');
    INSERT INTO traits (name) VALUES ('CUSTOM_OLD');
    INSERT INTO resource_provider_traits (trait_id, resource_provider_id) SELECT id, 2 FROM traits WHERE name = 'CUSTOM_OLD';
    INSERT INTO projects (external_id) VALUES ('berlin');
    INSERT INTO users (external_id) VALUES ('anna');
    INSERT INTO consumers (uuid, project_id, user_id, generation) SELECT '0e0a2a4c-12c1-4a43-8f7a-2a4a0e5d8a11', p.id, u.id, 5
        FROM projects p, users u;
    INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES
        (1, '0e0a2a4c-12c1-4a43-8f7a-2a4a0e5d8a11', 0, 4), (1, '1e0a2a4c-12c1-4a43-8f7a-2a4a0e5d8a11', 0, 2),
        (2, '1e0a2a4c-12c1-4a43-8f7a-2a4a0e5d8a11', 8, 1), (1, '2e0a2a4c-12c1-4a43-8f7a-2a4a0e5d8a11', 0, 1);
    INSERT INTO placement_aggregates (uuid) VALUES ('7e8e5957-649f-477b-9e5b-f1f75b21c03c');
    INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) SELECT 1, id FROM placement_aggregates";

/// What [`ROWS`] come to: each question and its one answer.
const AFTERWARDS: [(&str, &str); 8] = [
    (
        "SELECT COUNT(*) FROM resource_providers WHERE root_provider_id = 1 AND id IN (1, 2)",
        "2",
    ),
    (
        "SELECT root_provider_id FROM resource_providers WHERE name = 'whole'",
        "3",
    ),
    ("SELECT SUM(used) FROM allocations", "8"),
    ("SELECT SUM(total) FROM inventories", "80"),
    (
        "SELECT COUNT(*) FROM consumers WHERE consumer_type_id IS NULL",
        "3",
    ),
    (
        "SELECT c.generation FROM consumers c JOIN projects p ON p.id = c.project_id WHERE p.external_id = 'berlin'",
        "5",
    ),
    (
        "SELECT COUNT(*) FROM consumers c JOIN projects p ON p.id = c.project_id JOIN users u ON u.id = c.user_id \
         WHERE p.external_id = 'nobody' AND u.external_id = 'nobodys' AND c.generation = 0",
        "2",
    ),
    (
        "SELECT COUNT(*) FROM resource_provider_traits t JOIN traits n ON n.id = t.trait_id WHERE n.name = 'CUSTOM_OLD'",
        "1",
    ),
];

fn owners() -> IncompleteConsumers {
    IncompleteConsumers {
        project_id: "nobody".to_owned(),
        user_id: "nobodys".to_owned(),
    }
}

pub(crate) async fn sync_all(store: &SqlStore) -> Result<Vec<SchemaStep>, PlacementSchemaError> {
    let mut sync = sync(store, owners()).await?;
    let mut done = Vec::new();
    while let Some(step) = sync.step().await? {
        done.push(step);
    }
    Ok(done)
}

pub(crate) async fn open(place: &TestDatabase) -> SqlStore {
    place.open(&SqlOptions::default()).await
}

pub(crate) async fn answer(store: &SqlStore, sql: &'static str) -> String {
    let rows = store.rows(Statement::new(sql)).await.unwrap();
    rows.first().unwrap().int(0).unwrap().to_string()
}

/// Only the guarantees of a later revision on rows; [`AFTERWARDS`] checks that the rows exist.
pub(crate) async fn assert_whole(store: &SqlStore) {
    assert_eq!(compare(store).await.unwrap(), []);
    assert_eq!(plan(store).await.unwrap().steps, []);
    for (question, expected) in AFTERWARDS {
        assert_eq!(answer(store, question).await, expected, "{question}");
    }
}

pub(crate) fn another(place: &TestDatabase) -> TestDatabase {
    match place {
        TestDatabase::Sqlite(_) => TestDatabase::sqlite(),
        TestDatabase::Postgres(_) => TestDatabase::postgres(),
        TestDatabase::MariaDb(_) => TestDatabase::mariadb(),
    }
}

async fn a_schema_created_from_nothing_equals_that_of_openstacks_own_migrations(
    place: TestDatabase,
) {
    let store = open(&place).await;
    assert_eq!(version(&store).await.unwrap(), SchemaVersion::Empty);
    assert_eq!(plan(&store).await.unwrap().steps, [SchemaStep::Make]);
    assert_eq!(sync_all(&store).await.unwrap(), [SchemaStep::Make]);
    assert_eq!(
        version(&store).await.unwrap(),
        SchemaVersion::Known(Revision::HEAD)
    );
    assert_eq!(compare(&store).await.unwrap(), []);
    assert_eq!(sync_all(&store).await.unwrap(), []);
    store.close().await;
    let theirs = another(&place);
    let mut schema = PlacementSchema::lease().unwrap();
    let head = schema.upgrade(&theirs.sqlalchemy_url(), "head").unwrap();
    assert_eq!(head, Revision::HEAD.id(), "a newer one is out");
    let expected = schema.reflect(&theirs.sqlalchemy_url()).unwrap();
    assert_eq!(schema.reflect(&place.sqlalchemy_url()).unwrap(), expected);
    assert!(expected["consumers"]["columns"]["uuid"].is_object());
    // Theirs is right to us, too.
    let store = open(&theirs).await;
    assert_eq!(compare(&store).await.unwrap(), []);
    store.close().await;
}

async fn every_older_revision_is_upgraded_to_the_newest_with_its_rows(place: TestDatabase) {
    let mut schema = PlacementSchema::lease().unwrap();
    let theirs = another(&place);
    schema.upgrade(&theirs.sqlalchemy_url(), "head").unwrap();
    let expected = schema.reflect(&theirs.sqlalchemy_url()).unwrap();
    for revision in Revision::ALL {
        let old = another(&place);
        let url = old.sqlalchemy_url();
        schema.upgrade(&url, revision.id()).unwrap();
        let store = open(&old).await;
        store.write(&Script(ROWS)).await.unwrap();
        assert_eq!(
            version(&store).await.unwrap(),
            SchemaVersion::Known(revision)
        );
        let planned = plan(&store).await.unwrap();
        assert_eq!(planned.left, [], "{revision}");
        let mut steps = vec![SchemaStep::Roots(2), SchemaStep::Consumers(2)];
        steps.extend(revision.later().map(SchemaStep::To));
        assert_eq!(planned.steps, steps, "{revision}");
        assert_eq!(sync_all(&store).await.unwrap(), steps, "{revision}");
        assert_whole(&store).await;
        store.close().await;
        let mut reflected = schema.reflect(&url).unwrap();
        if matches!(old, TestDatabase::Sqlite(_)) && revision < Revision::ConsumerTypes {
            // The key came with its column, so its name is where SQLAlchemy looks for none.
            let name = |of: &Value| of["consumers"]["foreign_keys"]["consumer_type_id"][0].clone();
            assert_eq!(name(&reflected), Value::Null);
            reflected["consumers"]["foreign_keys"]["consumer_type_id"][0] = name(&expected);
        }
        assert_eq!(reflected, expected, "{revision}");
        // Their own tool has nothing to do and nothing to say.
        assert_eq!(schema.upgrade(&url, "head").unwrap(), Revision::HEAD.id());
        if revision == Revision::Initial {
            let mut check = PlacementSchema::lease().unwrap();
            assert_eq!(check.upgrade_check(&url).unwrap(), json!([]));
        }
    }
}

async fn rows_that_no_root_can_be_found_for_stop_the_upgrade_and_are_named(place: TestDatabase) {
    let mut schema = PlacementSchema::lease().unwrap();
    let url = place.sqlalchemy_url();
    schema.upgrade(&url, Revision::Initial.id()).unwrap();
    let store = open(&place).await;
    store.write(&Script(ROWS)).await.unwrap();
    let ring = "UPDATE resource_providers SET parent_provider_id = 2 WHERE id = 1";
    store.write(&Execute(Statement::new(ring))).await.unwrap();
    let error = sync_all(&store).await.unwrap_err();
    assert!(
        matches!(&error, PlacementSchemaError::NoRoot { providers } if providers.len() == 2),
        "{error}"
    );
    assert!(error.to_string().contains("4e8e5957-"), "{error}");
    assert_eq!(
        version(&store).await.unwrap(),
        SchemaVersion::Known(Revision::Initial)
    );
    let repair = "UPDATE resource_providers SET parent_provider_id = NULL WHERE id = 1";
    store.write(&Execute(Statement::new(repair))).await.unwrap();
    assert_eq!(sync_all(&store).await.unwrap().len(), 6);
    assert_whole(&store).await;
    store.close().await;
}

/// An alembic_version without a row: if the other tables are empty, too, they are created, else every command reports
/// the same.
async fn a_database_without_its_revision_has_one_answer(place: TestDatabase) {
    let store = open(&place).await;
    let run = async |sql: &'static str| store.write(&Script(sql)).await.unwrap();
    run("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, PRIMARY KEY (version_num))").await;
    for round in ["alembic_version alone", "all tables, none with a row"] {
        assert_eq!(
            version(&store).await.unwrap(),
            SchemaVersion::Empty,
            "{round}"
        );
        for error in [
            compare(&store).await.unwrap_err(),
            check(&store).await.unwrap_err(),
        ] {
            assert!(
                matches!(&error, PlacementSchemaError::OtherRevision { found } if found.is_empty()),
                "{round}: {error}"
            );
        }
        assert_eq!(
            sync_all(&store).await.unwrap(),
            [SchemaStep::Make],
            "{round}"
        );
        assert_eq!(compare(&store).await.unwrap(), [], "{round}");
        run("DELETE FROM alembic_version").await;
    }
    run("INSERT INTO projects (external_id) VALUES ('berlin')").await;
    for error in [
        version(&store).await.unwrap_err(),
        compare(&store).await.unwrap_err(),
        check(&store).await.unwrap_err(),
        plan(&store).await.unwrap_err(),
        sync_all(&store).await.unwrap_err(),
        prepare(&store).await.unwrap_err(),
    ] {
        assert!(matches!(error, PlacementSchemaError::NoRevision), "{error}");
    }
    // What it says is to be done.
    run("INSERT INTO alembic_version (version_num) VALUES ('a082b8bb98d0')").await;
    assert_eq!(compare(&store).await.unwrap(), []);
    assert_eq!(sync_all(&store).await.unwrap(), []);
    store.close().await;
}

/// Extensions of PostgreSQL put some into the schema.
async fn views_are_no_tables(place: TestDatabase) {
    let store = open(&place).await;
    store
        .write(&Script(
            "CREATE VIEW pg_stat_statements AS SELECT 1 AS calls",
        ))
        .await
        .unwrap();
    assert_eq!(version(&store).await.unwrap(), SchemaVersion::Empty);
    assert_eq!(plan(&store).await.unwrap().steps, [SchemaStep::Make]);
    prepare(&store).await.unwrap();
    assert_eq!(compare(&store).await.unwrap(), []);
    store.close().await;
}

/// Only on SQLite, OpenStack's tool recreates the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_operators_objects_on_consumers_survive_the_upgrade_on_sqlite() {
    let mut schema = PlacementSchema::lease().unwrap();
    for has_column in [false, true] {
        let place = TestDatabase::sqlite();
        let url = place.sqlalchemy_url();
        schema.upgrade(&url, Revision::Consumers.id()).unwrap();
        let store = open(&place).await;
        let run = async |sql: &'static str| store.write(&Script(sql)).await.unwrap();
        run(ROWS).await;
        run("ALTER TABLE consumers ADD COLUMN cost_centre TEXT DEFAULT 'none';
             UPDATE consumers SET cost_centre = 'gpu lab';
             CREATE INDEX of_mine ON consumers (cost_centre, uuid);
             CREATE TABLE notes (id INTEGER);
             CREATE TRIGGER of_mine_too AFTER DELETE ON consumers BEGIN INSERT INTO notes VALUES (OLD.id); END")
            .await;
        if has_column {
            // Half of the step, without its key.
            run("ALTER TABLE consumers ADD COLUMN consumer_type_id INTEGER;
                 CREATE INDEX consumers_consumer_type_id_idx ON consumers (consumer_type_id)")
            .await;
        }
        sync_all(&store).await.unwrap();
        let differences: Vec<_> = compare(&store).await.unwrap();
        let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
        let of_mine = [
            "column cost_centre of consumers is not Placement's",
            "index of_mine of consumers is not Placement's",
            "table notes is not Placement's",
        ];
        assert_eq!(differences, of_mine);
        for (question, expected) in [
            (
                "SELECT COUNT(*) FROM consumers WHERE cost_centre = 'gpu lab'",
                "1",
            ),
            (
                "SELECT COUNT(*) FROM sqlite_master WHERE name = 'of_mine_too' AND type = 'trigger'",
                "1",
            ),
            (
                "SELECT COUNT(*) FROM pragma_foreign_key_list('consumers')",
                "1",
            ),
        ] {
            assert_eq!(answer(&store, question).await, expected, "{question}");
        }
        store.close().await;
    }
}

async fn differences_from_the_revision_are_reported(place: TestDatabase) {
    let store = open(&place).await;
    let run = async |sql: &'static str| store.write(&Script(sql)).await.unwrap();
    let differences = async || {
        let differences = compare(&store).await.unwrap();
        differences
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    run("CREATE TABLE things (id INTEGER)").await;
    for error in [
        version(&store).await.unwrap_err(),
        compare(&store).await.unwrap_err(),
        sync_all(&store).await.unwrap_err(),
    ] {
        assert!(
            matches!(error, PlacementSchemaError::NotPlacement),
            "{error}"
        );
    }
    run("DROP TABLE things").await;
    let error = compare(&store).await.unwrap_err();
    assert!(
        matches!(&error, PlacementSchemaError::OtherRevision { found } if found.is_empty()),
        "{error}"
    );
    sync_all(&store).await.unwrap();

    run("CREATE INDEX of_mine ON users (created_at)").await;
    run("CREATE TABLE things (id INTEGER)").await;
    run(match store.dialect() {
        Dialect::MySql => "DROP INDEX allocations_consumer_id_idx ON allocations",
        _ => "DROP INDEX allocations_consumer_id_idx",
    })
    .await;
    let others = [
        "index allocations_consumer_id_idx of allocations is missing",
        "table things is not Placement's",
        "index of_mine of users is not Placement's",
    ];
    assert_eq!(differences().await, others);
    let error = sync_all(&store).await.unwrap_err();
    assert!(
        matches!(&error, PlacementSchemaError::NotAsRevision { differences, .. } if differences.len() == 1),
        "{error}"
    );
    run("CREATE INDEX allocations_consumer_id_idx ON allocations (used)").await;
    let other = ShapeDifference::Other {
        found: "(used)".to_owned(),
        expected: "(consumer_id)".to_owned(),
    };
    assert_eq!(compare(&store).await.unwrap()[0].problem, other);
    if store.dialect() != Dialect::Sqlite {
        run("ALTER TABLE users DROP COLUMN updated_at").await;
        run("ALTER TABLE projects ADD COLUMN colour VARCHAR(7)").await;
        let differences = differences().await;
        for expected in [
            "column updated_at of users is missing",
            "column colour of projects is not Placement's",
        ] {
            assert!(
                differences.iter().any(|it| it == expected),
                "{differences:?}"
            );
        }
        run("ALTER TABLE users ADD COLUMN updated_at VARCHAR(5) NOT NULL DEFAULT 'never'").await;
        let differences = compare(&store).await.unwrap();
        let is_other = |it: &Difference| {
            it.object == "column updated_at of users"
                && it.to_string().contains("`VARCHAR(5) NOT NULL DEFAULT")
        };
        assert!(differences.iter().any(is_other), "{differences:?}");
    }
    run("UPDATE alembic_version SET version_num = '0123456789ab'").await;
    for error in [
        compare(&store).await.unwrap_err(),
        plan(&store).await.unwrap_err(),
    ] {
        assert!(
            matches!(&error, PlacementSchemaError::UnknownRevision { found } if found == "0123456789ab"),
            "{error}"
        );
    }
    let unknown = SchemaVersion::Unknown("0123456789ab".to_owned());
    assert_eq!(version(&store).await.unwrap(), unknown);
    store.close().await;
}

/// The statements that change something, as MariaDB's own log has them from `what`.
async fn logged(server: &Arc<MariaDb>, what: impl AsyncFnOnce()) -> Vec<String> {
    let ask = |sql: &str| server.query(None, sql).unwrap();
    ask(
        "SET GLOBAL log_output = 'TABLE'; TRUNCATE TABLE mysql.general_log; SET GLOBAL general_log = ON",
    );
    what().await;
    ask("SET GLOBAL general_log = OFF");
    // As one line each.
    let rows = ask(
        "SELECT REGEXP_REPLACE(CAST(argument AS CHAR), '[[:space:]]+', ' ') FROM mysql.general_log \
         WHERE command_type IN ('Query', 'Execute') \
         AND CAST(argument AS CHAR) REGEXP '^[[:space:]]*(CREATE|ALTER|DROP|INSERT|UPDATE|DELETE) ' ORDER BY event_time",
    );
    rows.into_iter().map(|row| row.join("\t")).collect()
}

/// MariaDB commits each change of the schema at once, so a kill can leave any number of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_upgrade_on_mariadb_continues_after_a_cut_at_any_statement() {
    let server = Arc::new(MariaDb::start().unwrap());
    let place = || TestDatabase::MariaDb(server.create().unwrap());
    let old = place();
    let url = old.sqlalchemy_url();
    let made = logged(&server, async || {
        let mut schema = PlacementSchema::lease().unwrap();
        schema.upgrade(&url, Revision::Initial.id()).unwrap();
    })
    .await;
    assert!(made.len() > 20, "{made:?}");
    let store = open(&old).await;
    store.write(&Script(ROWS)).await.unwrap();
    let upgraded = logged(&server, async || {
        sync_all(&store).await.unwrap();
    })
    .await;
    assert_whole(&store).await;
    store.close().await;
    drop(old);
    assert!(upgraded.len() >= 15, "{upgraded:#?}");
    for cut in 0..=upgraded.len() {
        let place = place();
        place.query(&made.join(";\n"));
        place.query(ROWS);
        place.query(&upgraded[..cut].join(";\n"));
        let store = open(&place).await;
        sync_all(&store)
            .await
            .unwrap_or_else(|error| panic!("after {:?}: {error:?}", &upgraded[..cut].last()));
        assert_whole(&store).await;
        store.close().await;
    }
}

/// The same for an empty database, after every fourth statement: the tables must become complete, whichever tool
/// started them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn half_created_tables_on_mariadb_are_completed() {
    let server = Arc::new(MariaDb::start().unwrap());
    let place = || TestDatabase::MariaDb(server.create().unwrap());
    let (ours, theirs) = (place(), place());
    let store = open(&ours).await;
    let by_us = logged(&server, async || {
        sync_all(&store).await.unwrap();
    })
    .await;
    store.close().await;
    let url = theirs.sqlalchemy_url();
    let by_them = logged(&server, async || {
        let mut schema = PlacementSchema::lease().unwrap();
        schema.upgrade(&url, "head").unwrap();
    })
    .await;
    let initial = by_them
        .iter()
        .position(|statement| statement.starts_with("INSERT INTO alembic_version"));
    let cuts_of_us = (0..=by_us.len()).step_by(4).map(|cut| &by_us[..cut]);
    let cuts_of_them = (0..initial.unwrap()).step_by(4).map(|cut| &by_them[..cut]);
    for statements in cuts_of_us.chain(cuts_of_them) {
        let place = place();
        if !statements.is_empty() {
            place.query(&statements.join(";\n"));
        }
        let store = open(&place).await;
        sync_all(&store)
            .await
            .unwrap_or_else(|error| panic!("after {:?}: {error:?}", statements.last()));
        assert_eq!(compare(&store).await.unwrap(), []);
        store.close().await;
    }
}
