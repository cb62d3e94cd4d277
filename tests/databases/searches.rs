//! Candidates searched in the tables of each database, by one service after another has written, against those of a snapshot of
//! the same cloud.

use axum::Router;
use berth_placement::{CandidatesFrom, Options, prepare, router};
use berth_store::{SqlOptions, SqlStore, Statement};
use http::Method;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::claims::{ask, uuid};
use crate::place::Place;
use crate::random_cloud::{Question, Write, some_cloud, some_question, some_write};

on_servers! {
    the_tables_tell_what_a_snapshot_tells
}

mod everywhere {
    use super::a_provider_with_a_parent_that_is_its_own_root_is_a_tree;
    on_all! {
        a_provider_with_a_parent_that_is_its_own_root_is_a_tree
    }
}

/// Clouds that are made on each database. The crate's own test tries many more on SQLite.
const CLOUDS: usize = 8;

async fn the_tables_tell_what_a_snapshot_tells(place: Place) {
    let step = (some_write(), proptest::collection::vec(some_question(), 10));
    let cases = (some_cloud(), proptest::collection::vec(step, 3..8));
    // Always the same clouds: what a failure shows can be had again.
    let mut runner = TestRunner::deterministic();
    let options = SqlOptions::default();
    let (one, other) = (place.open(&options).await, place.open(&options).await);
    prepare(&one).await.unwrap();
    let services = [one.clone(), other].map(|store| router(store, Options::default()));
    for _ in 0..CLOUDS {
        let (cloud, steps) = cases.new_tree(&mut runner).unwrap().current();
        agree(&services, &cloud, &steps).await;
        one.write(&crate::work::Script(EMPTY)).await.unwrap();
    }
}

async fn agree(services: &[Router; 2], cloud: &[Write], steps: &[(Write, Vec<Question>)]) {
    let memory = SqlStore::in_memory().await.unwrap();
    prepare(&memory).await.unwrap();
    let options = Options {
        candidates_from: CandidatesFrom::Snapshot,
        ..Options::default()
    };
    let snapshot = router(memory, options);
    let [writer, reader] = services;
    let both = async |write: &Write| {
        let (done, expected) = (write.make(writer).await, write.make(&snapshot).await);
        assert_eq!(done, expected, "{write:?}");
    };
    for write in cloud {
        both(write).await;
    }
    for (write, questions) in steps {
        both(write).await;
        for question in questions {
            let expected = question.ask(&snapshot).await;
            assert_eq!(question.ask(reader).await, expected, "{question:?}");
        }
    }
}

const EMPTY: &str = "DELETE FROM allocations; DELETE FROM consumers; DELETE FROM inventories; \
     DELETE FROM resource_provider_traits; DELETE FROM resource_provider_aggregates; \
     UPDATE resource_providers SET root_provider_id = NULL, parent_provider_id = NULL; \
     DELETE FROM resource_providers";

/// A service that searches in the tables, on SQLite too.
async fn by_tables(place: &Place) -> (SqlStore, Router) {
    let store = place.open(&SqlOptions::default()).await;
    prepare(&store).await.unwrap();
    let options = Options {
        candidates_from: CandidatesFrom::Sql,
        ..Options::default()
    };
    (store.clone(), router(store, options))
}

async fn put(service: &Router, path: &str, body: &Value) {
    let (status, text) = ask(service, Method::PUT, path, body).await;
    assert!(status.is_success(), "{path}: {status} {text}");
}

/// A provider with these inventories, at generation 1.
async fn provider(service: &Router, number: u32, inventories: Value) -> String {
    let provider = uuid(1, number);
    let body = json!({"name": provider, "uuid": provider});
    let (made, text) = ask(service, Method::POST, "/resource_providers", &body).await;
    assert_eq!(made, 200, "{text}");
    let body = json!({"resource_provider_generation": 0, "inventories": inventories});
    put(
        service,
        &format!("/resource_providers/{provider}/inventories"),
        &body,
    )
    .await;
    provider
}

/// How many candidates there are.
async fn candidates(service: &Router, query: &str) -> usize {
    let path = format!("/allocation_candidates?{query}");
    let (status, body) = ask(service, Method::GET, &path, &Value::Null).await;
    assert_eq!(status, 200, "{query}: {body}");
    body["allocation_requests"].as_array().unwrap().len()
}

/// As OpenStack's migration of tables from before there were roots leaves them.
async fn a_provider_with_a_parent_that_is_its_own_root_is_a_tree(place: Place) {
    let (store, service) = by_tables(&place).await;
    let vcpu = || json!({"VCPU": {"total": 8}});
    for number in 0..3 {
        provider(&service, number, vcpu()).await;
    }
    let sql = "UPDATE resource_providers SET parent_provider_id = ? WHERE uuid = ?";
    let below = Statement::new(sql).bind(1).bind(uuid(1, 1));
    store.write(&crate::work::Do(below)).await.unwrap();
    assert_eq!(candidates(&service, "resources=VCPU:1").await, 3);
}
