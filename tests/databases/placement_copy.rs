//! Copies of all rows of Placement's database to another of any kind, and an incomplete copy.

use std::fs;

use berth_placement::{
    CopyError, PlacementSchemaError, can_be_copied_to, compare, copy, prepare, version,
};
use berth_store::{SqlOptions, SqlStore, Statement};
use berth_tests::peer::PlacementSchema;
use serde_json::json;

use crate::databases::placement_schema::{ROWS, another, answer, assert_whole, open, sync_all};
use crate::databases::test_database::TestDatabase;
use crate::databases::work::{Execute, Script, one};

mod everywhere {
    use super::{
        a_copy_that_ends_after_any_table_is_not_served_and_restarts,
        only_an_empty_database_is_copied_to_and_only_a_whole_one_is_copied,
    };
    on_all! {
        a_copy_that_ends_after_any_table_is_not_served_and_restarts
        only_an_empty_database_is_copied_to_and_only_a_whole_one_is_copied
    }
}

/// Rows of every kind, and more than one page of providers, each the child of one with a greater id.
async fn fill(store: &SqlStore) {
    sync_all(store).await.unwrap();
    store.write(&Script(ROWS)).await.unwrap();
    sync_all(store).await.unwrap();
    let head = "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id, parent_provider_id) VALUES";
    let mut all = vec![format!(
        "{head} (9000, 'root-9000', 'root-9000', 1, 9000, NULL)"
    )];
    for first in (100..2800).step_by(300) {
        let rows = (first..first + 300)
            .map(|id| format!("({id}, 'child-{id}', 'child-{id}', 2, 9000, 9000)"));
        all.push(format!("{head} {}", rows.collect::<Vec<_>>().join(", ")));
    }
    for sql in [
        "UPDATE resource_providers SET created_at = '2026-11-22 20:15:59.750000' WHERE id = 9000",
        "UPDATE resource_providers SET updated_at = '2026-11-22 20:15:59' WHERE id = 9000",
        "INSERT INTO consumer_types (name) VALUES ('INSTANCE')",
    ] {
        all.push(sql.to_owned());
    }
    for sql in all {
        store.write(&Execute(Statement::new(sql))).await.unwrap();
    }
}

async fn open_read_only(place: &TestDatabase) -> SqlStore {
    let opened = SqlStore::open_read_only_at(&place.location(), &SqlOptions::default()).await;
    opened.unwrap().unwrap()
}

/// Each table with its rows and their digest.
async fn copy_all(
    from: &SqlStore,
    to: &SqlStore,
) -> Result<Vec<(&'static str, u64, String)>, CopyError> {
    let mut copy = copy(from, to).await?;
    while copy.table().await?.is_some() {}
    let all = copy.complete().await?.into_iter();
    Ok(all.map(|it| (it.table, it.rows, it.digest)).collect())
}

/// There and back again over each border: all rows, and the next id of each table.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_is_copied_between_all_kinds_and_back_with_all_its_rows() {
    let mut schema = PlacementSchema::lease().unwrap();
    let mut from = TestDatabase::sqlite();
    let store = open(&from).await;
    fill(&store).await;
    store.close().await;
    let way = [
        TestDatabase::postgres(),
        TestDatabase::mariadb(),
        TestDatabase::sqlite(),
        TestDatabase::mariadb(),
        TestDatabase::postgres(),
        TestDatabase::sqlite(),
    ];
    let mut known = Vec::new();
    for to in way {
        let (old, new) = (open_read_only(&from).await, open(&to).await);
        let copied = copy_all(&old, &new).await.unwrap();
        old.close().await;
        assert_eq!(copied.len(), 12);
        let rows = |table: &str| copied.iter().find(|it| it.0 == table).unwrap().1;
        assert_eq!((rows("resource_providers"), rows("allocations")), (2704, 4));
        known.push(copied);
        assert_whole(&new).await;
        for sql in [
            "INSERT INTO projects (external_id) VALUES ('the next')",
            "DELETE FROM projects WHERE external_id = 'the next'",
        ] {
            new.write(&Execute(Statement::new(sql))).await.unwrap();
        }
        new.close().await;
        let url = to.sqlalchemy_url();
        assert_eq!(schema.upgrade(&url, "head").unwrap(), berth_placement::HEAD);
        from = to;
    }
    let mut check = PlacementSchema::lease().unwrap();
    let checked = check.upgrade_check(&from.sqlalchemy_url()).unwrap();
    assert_eq!(checked, json!([]));
    // Once it was on MariaDB there is nothing left to round.
    assert_eq!(known[2], known[1]);
    assert_eq!(known[3], known[1]);
    assert_eq!(known[4], known[1]);
}

async fn a_copy_that_ends_after_any_table_is_not_served_and_restarts(place: TestDatabase) {
    let from = TestDatabase::sqlite();
    let store = open(&from).await;
    fill(&store).await;
    store.close().await;
    let TestDatabase::Sqlite(folder) = &from else {
        unreachable!("made as one")
    };
    let bytes = || fs::read(folder.path().join("things.db")).unwrap();
    let before = bytes();
    let old = open_read_only(&from).await;
    for done in [0, 3, 7, 12] {
        let new = open(&place).await;
        let mut copy = copy(&old, &new).await.unwrap();
        for _ in 0..done {
            copy.table().await.unwrap().unwrap();
        }
        drop(copy);
        for refused in [
            prepare(&new).await.unwrap_err(),
            version(&new).await.unwrap_err(),
            compare(&new).await.unwrap_err(),
            sync_all(&new).await.unwrap_err(),
        ] {
            assert!(
                matches!(refused, PlacementSchemaError::Incomplete),
                "{refused}"
            );
        }
        new.close().await;
    }
    let new = open(&place).await;
    copy_all(&old, &new).await.unwrap();
    assert_whole(&new).await;
    prepare(&new).await.unwrap();
    new.close().await;
    old.close().await;
    assert!(bytes() == before, "what is copied was written to");
}

async fn only_an_empty_database_is_copied_to_and_only_a_whole_one_is_copied(place: TestDatabase) {
    let from = TestDatabase::sqlite();
    let store = open(&from).await;
    sync_all(&store).await.unwrap();
    store.write(&Script(ROWS)).await.unwrap();
    let new = open(&place).await;
    let error = copy(&store, &new).await.err().unwrap();
    assert!(
        matches!(&error, CopyError::Differs { differences } if differences.len() == 2),
        "{error}"
    );
    sync_all(&store).await.unwrap();
    sync_all(&new).await.unwrap();
    let error = copy(&store, &new).await.err().unwrap();
    assert!(matches!(error, CopyError::NotEmpty { .. }), "{error}");
    assert!(can_be_copied_to(&new).await.is_err());
    new.close().await;
    let notes = Script("CREATE TABLE notes (id INTEGER)");
    store.write(&notes).await.unwrap();
    let empty = another(&place);
    let new = open(&empty).await;
    let copy = copy(&store, &new).await.unwrap();
    let ignored: Vec<_> = copy.ignored.iter().map(ToString::to_string).collect();
    assert_eq!(ignored, ["table notes is not Placement's"]);
    drop(copy);
    new.close().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_does_not_fit_is_reported_by_its_table_and_the_copy_is_incomplete() {
    let from = TestDatabase::sqlite();
    let store = open(&from).await;
    sync_all(&store).await.unwrap();
    let run = async |sql: &'static str| store.write(&Script(sql)).await.unwrap();
    run("INSERT INTO projects (external_id) VALUES ('anna'), ('ANNA')").await;
    let (mariadb, postgres) = (TestDatabase::mariadb(), TestDatabase::postgres());
    let new = open(&mariadb).await;
    let error = copy_all(&store, &new).await.unwrap_err();
    assert!(
        matches!(&error, CopyError::Alike { table, .. } if *table == "projects"),
        "{error}"
    );
    let refused = prepare(&new).await.unwrap_err();
    assert!(
        matches!(refused, PlacementSchemaError::Incomplete),
        "{refused}"
    );
    new.close().await;

    // SQLite holds what it is given.
    run("INSERT INTO consumers (uuid, project_id, user_id) VALUES ('c', 1, 1)").await;
    run("INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES (1, 'c', 0, 3000000000)")
        .await;
    let new = open(&postgres).await;
    let error = copy_all(&store, &new).await.unwrap_err();
    assert!(
        matches!(&error, CopyError::Table { table, .. } if *table == "allocations"),
        "{error}"
    );
    run("UPDATE allocations SET used = 3").await;
    copy_all(&store, &new).await.unwrap();
    assert_eq!(answer(&new, "SELECT COUNT(*) FROM projects").await, "2");
    new.close().await;

    run("UPDATE projects SET external_id = 'zoë' WHERE external_id = 'ANNA'").await;
    let new = open(&mariadb).await;
    copy_all(&store, &new).await.unwrap();
    let sql = "SELECT external_id FROM projects WHERE external_id <> 'anna'";
    let name = one(&new, Statement::new(sql)).await;
    assert_eq!(name.text(0).unwrap(), "zoë");
    new.close().await;
    store.close().await;
}

/// Of a ratio that four bytes hold and another that they round, six digits come over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_ratio_beyond_mariadbs_precision_is_copied_rounded() {
    let (from, to) = (TestDatabase::sqlite(), TestDatabase::mariadb());
    let store = open(&from).await;
    fill(&store).await;
    let ratio = "UPDATE inventories SET allocation_ratio = 1.23456499";
    store.write(&Execute(Statement::new(ratio))).await.unwrap();
    let new = open(&to).await;
    copy_all(&store, &new).await.unwrap();
    let rows = to.query("SELECT DISTINCT allocation_ratio FROM inventories");
    assert_eq!(rows, [["1.23456"]]);
    new.close().await;
    store.close().await;
}

/// The answer to the last COMMIT is lost: whether it was done is looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_with_an_unanswered_last_commit_is_recognised_as_complete() {
    for place in [TestDatabase::postgres(), TestDatabase::mariadb()] {
        let from = TestDatabase::sqlite();
        let store = open(&from).await;
        fill(&store).await;
        let proxy = crate::databases::proxy::Proxy::start(&place).await;
        let (location, options) = (proxy.location(&place), SqlOptions::default());
        let new = SqlStore::open(&location, &options).await.unwrap();
        let mut copy = copy(&store, &new).await.unwrap();
        while copy.table().await.unwrap().is_some() {}
        proxy.cut_at_one_commit();
        assert_eq!(copy.complete().await.unwrap().len(), 12);
        new.close().await;
        let new = open(&place).await;
        assert_whole(&new).await;
        new.close().await;
        store.close().await;
    }
}
