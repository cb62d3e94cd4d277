//! Tests with several nodes: they appear and disappear, and none waits for another.

use std::time::Duration;

use berth_agent_api::PassResult;
use tokio::time::{Instant, sleep};

use crate::service::error::ServiceError;
use crate::service::tests::bench::{Bench, stage, usual, without_timer};
use crate::service::tests::driver::{ScriptedObservation, host, node};
use crate::service::tests::placement::PlacementBehaviour;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn nodes_come_and_go_and_nothing_of_a_gone_one_is_deleted() {
    stage(&["a", "b"], usual, async |bench, running| {
        bench.driver.change(|view| {
            view.nodes.remove(&"b".parse().unwrap());
            view.nodes.insert("c".parse().unwrap(), node());
        });
        running.tick().await;
        assert!(bench.placement.has("c"), "a new node is reported");
        assert!(
            bench.placement.has("b"),
            "a removed node stays in Placement"
        );
        sleep(MINUTE).await;
        assert_eq!(running.codes(), ["node-gone"]);
        assert!(
            running
                .state()
                .summary(Instant::now())
                .starts_with("in sync: 2 nodes; warning: ")
        );
        bench
            .driver
            .change(|view| drop(view.nodes.insert("b".parse().unwrap(), node())));
        let outcome = running.tick().await;
        assert_eq!(outcome.nodes.len(), 3);
        assert!(
            outcome
                .nodes
                .iter()
                .all(|(_, pass)| pass.result != PassResult::Failed),
            "{outcome:?}"
        );
        assert!(running.codes().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_with_somebody_elses_name_is_left_alone_and_the_others_go_on() {
    let bench = Bench::with(host(&["a"]));
    bench.placement.plant("b");
    let theirs = bench.placement.uuid("b");
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            bench.driver.change(|view| {
                view.nodes.insert("b".parse().unwrap(), node());
                view.nodes
                    .get_mut(&"a".parse().unwrap())
                    .unwrap()
                    .memory_mib = 20_000;
            });
            sleep(MINUTE * 5).await;
            assert_eq!(running.codes(), ["identity"]);
            assert_eq!(bench.placement.uuid("b"), theirs);
            assert_eq!(
                bench.placement.inventory("b", "VCPU", "total"),
                serde_json::Value::Null
            );
            assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 20_000);
            bench.placement.remove("b");
            running.tick().await;
            assert!(running.codes().is_empty());
            assert_eq!(bench.placement.inventory("b", "VCPU", "total"), 8);
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_holds_no_other_up_and_gets_one_more_pass_with_the_newest_view() {
    stage(&["a", "b"], without_timer, async |bench, _| {
        let slow = bench.placement.uuid("a").unwrap();
        bench.placement.set(PlacementBehaviour::Held(format!(
            "PUT /resource_providers/{slow}"
        )));
        for memory in [20_000, 21_000, 22_000] {
            bench.driver.set_memory(memory);
            bench.driver.event();
            sleep(Duration::from_secs(10)).await;
            assert_eq!(
                bench.placement.inventory("b", "MEMORY_MB", "total"),
                memory,
                "b continues"
            );
            assert_eq!(
                bench.placement.inventory("a", "MEMORY_MB", "total"),
                16_384,
                "a waits"
            );
        }
        bench.placement.set(PlacementBehaviour::Fine);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 22_000);
        let writes = bench.placement.requests();
        let writes = writes
            .iter()
            .filter(|line| line.starts_with(&format!("PUT /resource_providers/{slow}/inv")));
        assert_eq!(
            writes.count(),
            3,
            "the one of the start, the delayed one, and one more"
        );
    })
    .await;
}

/// Starts the agent once on these nodes and returns its result.
async fn start_on(bench: &Bench, nodes: &[&str]) -> Result<(), ServiceError> {
    bench.driver.show(ScriptedObservation::View(host(nodes)));
    bench.run_to_end(bench.once(MINUTE)).await
}

fn uuid_file(bench: &Bench, file: &str) -> Option<String> {
    let text = std::fs::read_to_string(bench.state_file(file)).ok()?;
    Some(text.trim().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_host_that_gets_more_nodes_and_loses_them_again_mixes_no_uuids_up() {
    let bench = Bench::with(host(&["a"]));
    start_on(&bench, &["a"]).await.unwrap();
    let of_a = bench.placement.uuid("a");
    assert_eq!(uuid_file(&bench, "compute_id"), of_a);

    start_on(&bench, &["a", "b", "c"]).await.unwrap();
    let of_b = bench.placement.uuid("b");
    assert_eq!(uuid_file(&bench, "compute_id"), None);
    for node in ["a", "b", "c"] {
        let own = uuid_file(&bench, &format!("compute_id.{node}"));
        assert_eq!(own, bench.placement.uuid(node), "{node}");
    }
    assert_eq!(bench.placement.uuid("a"), of_a, "it is still the same");

    // The state after a kill before the old file was removed.
    std::fs::copy(
        bench.state_file("compute_id.a"),
        bench.state_file("compute_id"),
    )
    .unwrap();
    for nodes in [&["a"] as &[_], &["b"], &["a", "b", "c"]] {
        start_on(&bench, nodes).await.unwrap();
        assert_eq!(bench.placement.uuid("a"), of_a, "{nodes:?}");
        assert_eq!(bench.placement.uuid("b"), of_b, "{nodes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_uuid_that_none_of_several_nodes_can_claim_is_asked_about() {
    let bench = Bench::with(host(&["a"]));
    start_on(&bench, &["a"]).await.unwrap();
    let of_a = bench.placement.uuid("a");

    let refused = start_on(&bench, &["b", "c"]).await.unwrap_err();
    let message = berth_model::error_chain(&refused);
    for word in ["compute_id.", "knows as a", "--accept-risk rename-host"] {
        assert!(message.contains(word), "no {word:?} in: {message}");
    }
    // They start concurrently, so the order of the reports is not defined.
    assert!(
        ["compute_id.b", "compute_id.c"]
            .iter()
            .any(|file| message.contains(file)),
        "{message}"
    );
    assert!(!bench.placement.has("b") && !bench.placement.has("c"));
    assert_eq!(uuid_file(&bench, "compute_id"), of_a);
    std::fs::remove_file(bench.state_file("compute_id")).unwrap();
    start_on(&bench, &["b", "c"]).await.unwrap();
    assert_eq!(bench.placement.uuid("a"), of_a);
}
