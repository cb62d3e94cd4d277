//! Moves of trees while other writers add and remove providers: two services with separate connections, as of two
//! processes, on one database.

use std::collections::BTreeMap;

use axum::Router;
use berth_placement::{PlacementApiOptions, prepare, router};
use berth_store::{Isolation, SqlOptions, SqlStore, Statement};
use futures_util::future::join_all;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::databases::claims::{ask, uuid};
use crate::databases::test_database::TestDatabase;

on_all! {
    a_provider_added_to_a_moving_tree_moves_with_it
    a_provider_added_to_a_moving_tree_moves_with_it_at_read_committed
}

const ROUNDS: u32 = 32;

async fn a_provider_added_to_a_moving_tree_moves_with_it(place: TestDatabase) {
    comes_along(place, Isolation::RepeatableRead).await;
}

async fn a_provider_added_to_a_moving_tree_moves_with_it_at_read_committed(place: TestDatabase) {
    comes_along(place, Isolation::ReadCommitted).await;
}

async fn comes_along(place: TestDatabase, isolation: Isolation) {
    let (store, services) = services(&place, isolation).await;
    let mut moved = 0;
    for round in 0..ROUNDS {
        let name = |number: u32| uuid(1, round * 100 + number);
        let [from, to, top, below, leaf] = [0, 1, 2, 3, 4].map(name);
        for (provider, parent) in [
            (&from, None),
            (&to, None),
            (&top, Some(&from)),
            (&below, Some(&top)),
            (&leaf, Some(&below)),
        ] {
            assert_eq!(create(&services[0], provider, parent).await, 200);
        }
        // To another tree, and to be a tree of its own.
        let goal = (round % 2 == 0).then_some(&to);
        let comers = (0..6).map(|n| {
            let service = services[n as usize % 2].clone();
            let parent = if n % 3 == 0 {
                top.clone()
            } else {
                below.clone()
            };
            let comer = name(10 + n);
            tokio::spawn(async move { create(&service, &comer, Some(&parent)).await })
        });
        let comers: Vec<_> = comers.collect();
        let delete = async {
            let path = format!("/resource_providers/{leaf}");
            let nothing = Value::Null;
            ask(&services[0], Method::DELETE, &path, &nothing).await.0
        };
        let child = name(20);
        let (done, gone, orphan, came) = tokio::join!(
            put_below(&services[1], &top, goal),
            delete,
            create(&services[1], &child, Some(&leaf)),
            join_all(comers),
        );
        moved += u32::from(done == 200);
        assert!(done == 200 || done == 409, "{done}");
        let outcome = (gone.as_u16(), orphan.as_u16());
        assert!(
            matches!(outcome, (204, 400 | 409) | (409, 200 | 409)),
            "deleted, and given a child: {outcome:?}"
        );
        for came in came {
            let came = came.unwrap();
            assert!(came == 200 || came == 409, "{came}");
        }
        whole(&store).await;
    }
    assert!(moved > ROUNDS / 2, "{moved} of {ROUNDS} moves");
}

/// What the database holds, and two who write to it. SQLite has one process.
async fn services(place: &TestDatabase, isolation: Isolation) -> (SqlStore, [Router; 2]) {
    let options = SqlOptions {
        isolation,
        ..SqlOptions::default()
    };
    let one = place.open(&options).await;
    let other = match place {
        TestDatabase::Sqlite(_) => one.clone(),
        _ => place.open(&options).await,
    };
    prepare(&one).await.unwrap();
    let services = [one.clone(), other].map(|store| router(store, PlacementApiOptions::default()));
    (one, services)
}

async fn create(service: &Router, provider: &str, parent: Option<&String>) -> StatusCode {
    let body = json!({"name": provider, "uuid": provider, "parent_provider_uuid": parent});
    ask(service, Method::POST, "/resource_providers", &body)
        .await
        .0
}

async fn put_below(service: &Router, provider: &str, parent: Option<&String>) -> StatusCode {
    let body = json!({"name": provider, "parent_provider_uuid": parent});
    let path = format!("/resource_providers/{provider}");
    ask(service, Method::PUT, &path, &body).await.0
}

/// Each provider's root must be the one that its parents lead to.
async fn whole(store: &SqlStore) {
    let sql = "SELECT id, root_provider_id, parent_provider_id FROM resource_providers";
    let rows = store.rows(Statement::new(sql)).await.unwrap();
    let place = |row: &berth_store::Row| {
        let (root, parent) = (row.opt_int(1).unwrap(), row.opt_int(2).unwrap());
        (row.int(0).unwrap(), (root, parent))
    };
    let places: BTreeMap<i64, _> = rows.iter().map(place).collect();
    for (id, (root, _)) in &places {
        let up = std::iter::successors(Some(*id), |at| places[at].1);
        let top = up.take(places.len()).last();
        assert_eq!(*root, top, "the root of {id} among {places:?}");
    }
}
