//! Candidate searches in the tables of each database, after another service wrote, compared with those in a snapshot of
//! the same cloud.

use std::fmt::Write as _;

use axum::Router;
use berth_placement::{CandidatesFrom, PlacementApiOptions, prepare, router};
use berth_store::{SqlOptions, SqlStore, Statement};
use http::Method;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::databases::claims::{ask, uuid};
use crate::databases::random_cloud::{Question, Write, some_cloud, some_question, some_write};
use crate::databases::test_database::TestDatabase;

on_servers! {
    a_search_in_the_tables_equals_one_in_a_snapshot
}

mod everywhere {
    use super::{
        a_provider_with_a_parent_that_is_its_own_root_is_a_tree,
        a_request_for_more_than_a_statement_can_say_is_answered,
    };
    on_all! {
        a_provider_with_a_parent_that_is_its_own_root_is_a_tree
        a_request_for_more_than_a_statement_can_say_is_answered
    }
}

/// Clouds that are made on each database. The crate's own test tries many more on SQLite.
const CLOUDS: usize = 8;

async fn a_search_in_the_tables_equals_one_in_a_snapshot(place: TestDatabase) {
    let step = (some_write(), proptest::collection::vec(some_question(), 10));
    let cases = (some_cloud(), proptest::collection::vec(step, 3..8));
    // Always the same clouds: what a failure shows can be had again.
    let mut runner = TestRunner::deterministic();
    let options = SqlOptions::default();
    let (one, other) = (place.open(&options).await, place.open(&options).await);
    prepare(&one).await.unwrap();
    let services = [one.clone(), other].map(|store| router(store, PlacementApiOptions::default()));
    for _ in 0..CLOUDS {
        let (cloud, steps) = cases.new_tree(&mut runner).unwrap().current();
        agree(&services, &cloud, &steps).await;
        one.write(&crate::databases::work::Script(EMPTY))
            .await
            .unwrap();
    }
}

async fn agree(services: &[Router; 2], cloud: &[Write], steps: &[(Write, Vec<Question>)]) {
    let memory = SqlStore::in_memory().await.unwrap();
    prepare(&memory).await.unwrap();
    let options = PlacementApiOptions {
        candidates_from: CandidatesFrom::Snapshot,
        ..PlacementApiOptions::default()
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
async fn by_tables(place: &TestDatabase) -> (SqlStore, Router) {
    let store = place.open(&SqlOptions::default()).await;
    prepare(&store).await.unwrap();
    let options = PlacementApiOptions {
        candidates_from: CandidatesFrom::Sql,
        ..PlacementApiOptions::default()
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
async fn a_provider_with_a_parent_that_is_its_own_root_is_a_tree(place: TestDatabase) {
    let (store, service) = by_tables(&place).await;
    let vcpu = || json!({"VCPU": {"total": 8}});
    for number in 0..3 {
        provider(&service, number, vcpu()).await;
    }
    let sql = "UPDATE resource_providers SET parent_provider_id = ? WHERE uuid = ?";
    let below = Statement::new(sql).bind(1).bind(uuid(1, 1));
    store
        .write(&crate::databases::work::Execute(below))
        .await
        .unwrap();
    assert_eq!(candidates(&service, "resources=VCPU:1").await, 3);
}

/// Traits, aggregates, classes and groups of one request.
const MANY: u32 = 100;

async fn a_request_for_more_than_a_statement_can_say_is_answered(place: TestDatabase) {
    let (_store, service) = by_tables(&place).await;
    let (traits, classes): (Vec<_>, Vec<_>) = (0..MANY)
        .map(|n| (format!("CUSTOM_T{n}"), format!("CUSTOM_C{n}")))
        .unzip();
    let aggregates: Vec<_> = (0..MANY).map(|n| uuid(3, n)).collect();
    for name in &traits {
        put(&service, &format!("/traits/{name}"), &Value::Null).await;
    }
    for name in &classes {
        put(&service, &format!("/resource_classes/{name}"), &Value::Null).await;
    }
    let mut inventories = json!({"VCPU": {"total": 1_000}});
    for name in &classes {
        inventories[name] = json!({"total": 8});
    }
    // The last of each is what the second lacks: no bound on a statement may take that out of the answer.
    for (number, lacks) in [(0, 0), (1, 1)] {
        let host = provider(&service, number, inventories.clone()).await;
        let some = traits.len() - lacks;
        let body = json!({"resource_provider_generation": 1, "traits": &traits[..some]});
        put(
            &service,
            &format!("/resource_providers/{host}/traits"),
            &body,
        )
        .await;
        let body = json!({"resource_provider_generation": 2, "aggregates": &aggregates[..some]});
        put(
            &service,
            &format!("/resource_providers/{host}/aggregates"),
            &body,
        )
        .await;
    }
    for shares in [false, true] {
        if shares {
            let sharing = provider(&service, 9, json!({"DISK_GB": {"total": 10}})).await;
            let body =
                json!({"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]});
            put(
                &service,
                &format!("/resource_providers/{sharing}/traits"),
                &body,
            )
            .await;
            let body = json!({"resource_provider_generation": 2, "aggregates": [aggregates[3]]});
            put(
                &service,
                &format!("/resource_providers/{sharing}/aggregates"),
                &body,
            )
            .await;
        }
        for (query, expected) in requests(&traits, &classes, &aggregates) {
            let found = candidates(&service, &query).await;
            let named: String = query.chars().take(60).collect();
            assert_eq!(found, expected, "{named} (shared: {shares})");
        }
        for list in lists(&traits, &classes, &aggregates) {
            let path = format!("/resource_providers?{list}");
            let (status, body) = ask(&service, Method::GET, &path, &Value::Null).await;
            let named: String = list.chars().take(60).collect();
            assert_eq!(status, 200, "{named}: {body}");
            let found = body["resource_providers"].as_array().unwrap().len();
            assert_eq!(found, 1, "{named}");
        }
    }
}

/// Each with how many candidates it has.
fn requests(traits: &[String], classes: &[String], aggregates: &[String]) -> Vec<(String, usize)> {
    let all_traits = traits.join(",");
    let each = |name: &str, values: &[String]| {
        values.iter().fold(String::new(), |mut query, value| {
            write!(query, "&{name}={value}").unwrap();
            query
        })
    };
    let amounts = |classes: &[String]| {
        let amounts: Vec<_> = classes.iter().map(|name| format!("{name}:1")).collect();
        amounts.join(",")
    };
    let named = traits.iter().zip(classes).enumerate();
    let groups = named.fold(
        "group_policy=none".to_owned(),
        |mut query, (n, (name, class))| {
            write!(query, "&resources{n}={class}:1&required{n}={name}").unwrap();
            query
        },
    );
    let any: Vec<_> = (0..500)
        .map(|n| uuid(4, n))
        .chain(aggregates.last().cloned())
        .collect();
    let any = format!("in:{}", any.join(","));
    let member = each("member_of", aggregates);
    vec![
        (format!("resources=VCPU:1&required={all_traits}"), 1),
        (format!("resources_A=VCPU:1&required_A={all_traits}"), 1),
        (format!("resources=VCPU:1&root_required={all_traits}"), 1),
        (format!("resources=VCPU:1{member}"), 1),
        (
            format!("resources_A=VCPU:1{}", each("member_of_A", aggregates)),
            1,
        ),
        (format!("resources=VCPU:1&member_of={any}"), 1),
        (format!("resources={}", amounts(classes)), 2),
        (format!("resources_A={}", amounts(classes)), 2),
        (
            format!(
                "resources={}&required={all_traits}{member}",
                amounts(classes)
            ),
            1,
        ),
        (groups, 1),
        (
            format!("resources=VCPU:1&required=!{}", traits.join(",!")),
            0,
        ),
        (
            format!(
                "resources=VCPU:1&required=in:{all_traits}&required=in:{all_traits},COMPUTE_NODE"
            ),
            2,
        ),
    ]
}

fn lists(traits: &[String], classes: &[String], aggregates: &[String]) -> [String; 2] {
    let amounts: Vec<_> = classes.iter().map(|name| format!("{name}:1")).collect();
    let members: Vec<_> = aggregates
        .iter()
        .map(|uuid| format!("member_of={uuid}"))
        .collect();
    [
        format!(
            "required={}&resources={}",
            traits.join(","),
            amounts.join(",")
        ),
        members.join("&"),
    ]
}
