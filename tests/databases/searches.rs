//! Candidates searched in the tables of each database, by one service after another has written, against those of a snapshot of
//! the same cloud.

use axum::Router;
use berth_placement::{CandidatesFrom, Options, prepare, router};
use berth_store::{SqlOptions, SqlStore};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::place::Place;
use crate::random_cloud::{Question, Write, some_cloud, some_question, some_write};

on_servers! {
    the_tables_tell_what_a_snapshot_tells
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
