//! Changes of the schema, and commands that need exclusive access.

use std::time::Duration;

use berth_store::{
    Dialect, OpenError, Schema, SchemaError, SqlError, SqlOptions, SqlStore, Statement,
};

use crate::databases::test_database::{TestDatabase, things};
use crate::databases::work::{Script, count, named};

mod everywhere {
    use super::{a_database_without_tables_is_none, read_only_commands_change_nothing};
    on_all! {
        a_database_without_tables_is_none
        read_only_commands_change_nothing
    }
}

on_servers! {
    the_schema_is_changed_by_one_at_a_time
    the_lock_is_released_with_its_holder
    other_sessions_are_seen
    sessions_of_offline_work_are_distinguished_from_a_services
    a_script_changes_the_schema
    tables_that_lost_their_version_keep_their_rows
}

const SHORT: Duration = Duration::from_millis(300);

async fn a_database_without_tables_is_none(place: TestDatabase) {
    let (location, options) = (place.location(), SqlOptions::default());
    let error = SqlStore::open_existing(&location, &options)
        .await
        .unwrap_err();
    assert!(
        matches!(error, OpenError::Absent { .. } | OpenError::NoTables { .. }),
        "{error:?}"
    );
    assert!(!error.to_string().contains("test-only"), "{error}");
    assert!(
        SqlStore::open_read_only_at(&location, &options)
            .await
            .unwrap()
            .is_none()
    );
    place.store().await.close().await;
    SqlStore::open_existing(&location, &options).await.unwrap();
}

async fn read_only_commands_change_nothing(place: TestDatabase) {
    let store = place.store().await;
    store.write(&named("a")).await.unwrap();
    let opened = SqlStore::open_read_only_at(&place.location(), &SqlOptions::default()).await;
    let reader = opened.unwrap().unwrap();
    assert_eq!(count(&reader).await, 1);
    let error = reader.write(&named("b")).await.unwrap_err();
    assert!(
        matches!(error, SqlError::ReadOnly(_) | SqlError::NotWritable(_)),
        "{error:?}"
    );
    let error = reader
        .write(&Script("CREATE TABLE more (id INTEGER)"))
        .await;
    assert!(error.is_err());
    assert_eq!(count(&store).await, 1);
}

async fn the_schema_is_changed_by_one_at_a_time(place: TestDatabase) {
    let store = place.store().await;
    let other = place.open(&SqlOptions::default()).await;
    let mut lock = store.schema_lock(SHORT).await.unwrap();
    lock.check().await.unwrap();
    let refused = other.schema_lock(SHORT).await.err().unwrap();
    assert!(matches!(refused, SqlError::SchemaHeld), "{refused:?}");
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.schema_lock(Duration::from_secs(60)).await.map(drop) }
    });
    store.write(&named("a")).await.unwrap();
    drop(lock);
    waiting.await.unwrap().unwrap();
    store.schema_lock(Duration::from_secs(60)).await.unwrap();
}

async fn the_lock_is_released_with_its_holder(place: TestDatabase) {
    let store = place.store().await;
    let mut lock = store.schema_lock(SHORT).await.unwrap();
    match &place {
        TestDatabase::Postgres(_) => {
            let sql = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and database = \
                 (select oid from pg_database where datname = current_database())";
            place.query(sql);
        }
        _ => {
            let id = "select is_used_lock(concat('berth/', sha1(database())))";
            let id = place.query(id).remove(0).remove(0);
            place.query(&format!("kill {id}"));
        }
    }
    let lost = lock.check().await.unwrap_err();
    assert!(matches!(lost, SqlError::Lost(_)), "{lost:?}");
    place
        .open(&SqlOptions::default())
        .await
        .schema_lock(Duration::from_secs(60))
        .await
        .unwrap();
}

async fn other_sessions_are_seen(place: TestDatabase) {
    let store = place.store().await;
    // Two of our own, which are none of others.
    let (_one, _two) = (store.read().await.unwrap(), store.read().await.unwrap());
    let alone = store.other_sessions().await.unwrap();
    assert_eq!(alone.seen, []);
    assert!(alone.complete, "{alone:?}");
    let other = place.open(&SqlOptions::default()).await;
    let _three = other.read().await.unwrap();
    let seen = store.other_sessions().await.unwrap().seen;
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|session| session.user == "placement"),
        "{seen:?}"
    );
    assert!(
        seen[0]
            .to_string()
            .contains("user placement from 127.0.0.1"),
        "{}",
        seen[0]
    );
    assert!(
        seen.iter().all(|session| !session.is_offline_work),
        "{seen:?}"
    );
}

async fn sessions_of_offline_work_are_distinguished_from_a_services(place: TestDatabase) {
    let store = place.store().await;
    let offline = SqlOptions {
        is_offline_work: true,
        ..SqlOptions::default()
    };
    let other = place.open(&offline).await;
    let (_one, _two) = (other.read().await.unwrap(), other.read().await.unwrap());
    let seen = store.other_sessions().await.unwrap().seen;
    assert!(seen.len() >= 2, "{seen:?}");
    assert!(
        seen.iter().all(|session| session.is_offline_work),
        "{seen:?}"
    );
    // They are two alike: the one sees the other as what it is, and the service as a service.
    let seen = other.other_sessions().await.unwrap().seen;
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|session| !session.is_offline_work),
        "{seen:?}"
    );
}

async fn a_script_changes_the_schema(place: TestDatabase) {
    let store = place.open(&SqlOptions::default()).await;
    store.write(&Script(things(store.dialect()))).await.unwrap();
    let refused = store
        .write(&Script(
            "INSERT INTO things (name) VALUES ('a'); INSERT INTO nowhere VALUES (1)",
        ))
        .await;
    assert!(matches!(refused, Err(SqlError::Refused(_))), "{refused:?}");
    assert_eq!(count(&store).await, 0, "both or none");
    let undone = "CREATE TABLE more (id INTEGER); INSERT INTO nowhere VALUES (1)";
    store.write(&Script(undone)).await.unwrap_err();
    let is_there = store
        .rows(Statement::new("SELECT id FROM more"))
        .await
        .is_ok();
    // MariaDB commits a CREATE by itself.
    assert_eq!(is_there, store.dialect() == Dialect::MySql);
}

async fn tables_that_lost_their_version_keep_their_rows(place: TestDatabase) {
    let pier = Schema {
        of: "the pier",
        mark: "pier_schema",
        version: 1,
        text: "CREATE TABLE IF NOT EXISTS pier_schema (\n    version INTEGER NOT NULL PRIMARY KEY\n);\n\
            CREATE TABLE IF NOT EXISTS pier_ships (\n    id INTEGER NOT NULL PRIMARY KEY,\n    name VARCHAR(9)\n);\n\
            CREATE INDEX IF NOT EXISTS pier_ships_name ON pier_ships (name);\n",
    };
    let store = place.store().await;
    pier.prepare(&store).await.unwrap();
    let lost = "DELETE FROM pier_schema";
    // As one leaves them that was killed between the last table and the version.
    store.write(&Script(lost)).await.unwrap();
    let made = pier.prepare(&store).await;
    assert_eq!(
        made.is_ok(),
        matches!(place, TestDatabase::MariaDb(_)),
        "{made:?}"
    );
    let ship = "INSERT INTO pier_ships (id, name) VALUES (1, 'Santa')";
    for script in [lost, ship] {
        store.write(&Script(script)).await.unwrap();
    }
    let refused = pier.prepare(&store).await.unwrap_err();
    assert!(matches!(refused, SchemaError::Damaged { .. }), "{refused}");
    let ships = Statement::new("SELECT name FROM pier_ships");
    let mut tx = store.read().await.unwrap();
    assert_eq!(tx.rows(ships).await.unwrap().len(), 1);
}
