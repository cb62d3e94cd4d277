//! The two ways to search for candidates, one against the other: in the snapshot, and in the tables.

use axum::Router;
use berth_placement::{CandidatesFrom, PlacementApiOptions, prepare, router};
use berth_store::SqlStore;
use proptest::prelude::*;

use crate::random_cloud::{Question, Write, some_cloud, some_question, some_write, sorted};

fn searching(store: &SqlStore, from: CandidatesFrom, randomize: bool) -> Router {
    let options = PlacementApiOptions {
        candidates_from: from,
        randomize_allocation_candidates: randomize,
        ..PlacementApiOptions::default()
    };
    router(store.clone(), options)
}

fn on_a_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

async fn all_agree(cloud: &[Write], steps: &[(Write, Vec<Question>)]) -> Result<(), TestCaseError> {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    let snapshot = searching(&store, CandidatesFrom::Snapshot, false);
    let tables = searching(&store, CandidatesFrom::Sql, false);
    let random = searching(&store, CandidatesFrom::Sql, true);
    for write in cloud {
        write.make(&snapshot).await;
    }
    for (number, (write, questions)) in steps.iter().enumerate() {
        // Each sees what the other wrote.
        let writer = if number % 2 == 0 { &snapshot } else { &tables };
        write.make(writer).await;
        for question in questions {
            let expected = question.ask(&snapshot).await;
            let found = question.ask(&tables).await;
            prop_assert_eq!(&found, &expected, "{:?}", question);
            let count = |answer: &(_, serde_json::Value)| {
                answer.1["allocation_requests"]
                    .as_array()
                    .map_or(0, Vec::len)
            };
            let shuffled = question.ask(&random).await;
            match question.limit {
                Some(_) => prop_assert_eq!(count(&shuffled), count(&expected), "{:?}", question),
                None => prop_assert_eq!(sorted(shuffled), sorted(expected), "{:?}", question),
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_tables_give_what_the_snapshot_gives(
        cloud in some_cloud(),
        steps in proptest::collection::vec((some_write(), proptest::collection::vec(some_question(), 6)), 1..8),
    ) {
        on_a_thread(all_agree(&cloud, &steps))?;
    }
}
