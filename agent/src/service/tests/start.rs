//! Tests of starts, successful and failed.

use std::time::Duration;

use berth_agent_api::Phase;
use berth_agent_tracker::options::Rename;
use berth_virt::VgpuModel;
use http::StatusCode;
use tokio::time::sleep;

use crate::service::error::ExitReason;
use crate::service::tests::bench::Bench;
use crate::service::tests::driver::{ScriptedObservation, host};
use crate::service::tests::placement::PlacementBehaviour;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn ready_is_sent_after_the_first_inventory_landed_and_not_before() {
    let bench = Bench::with(host(&["gpu-01"]));
    bench
        .placement
        .set(PlacementBehaviour::Held("/inventories".to_owned()));
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            while !bench
                .placement
                .requests()
                .iter()
                .any(|line| line.ends_with("/inventories") && line.starts_with("PUT"))
            {
                sleep(Duration::from_millis(10)).await;
            }
            let messages = bench.messages();
            assert!(
                messages.contains(&"EXTEND_TIMEOUT_USEC=90000000".to_owned()),
                "{messages:?}"
            );
            assert!(
                messages
                    .contains(&"STATUS=starting: reporting node gpu-01 to Placement".to_owned()),
                "{messages:?}"
            );
            assert!(!messages.contains(&"READY=1".to_owned()), "{messages:?}");
            bench.placement.set(PlacementBehaviour::Fine);
            running.started().await;
            let messages = bench.messages();
            assert_eq!(
                messages[messages.len() - 2..],
                [
                    "STATUS=in sync: node gpu-01".to_owned(),
                    "READY=1".to_owned()
                ]
            );
            assert_eq!(bench.placement.inventory("gpu-01", "VCPU", "total"), 8);
        })
        .await;
    ended.unwrap();
    let messages = bench.notifications();
    assert_eq!(messages[0], "STOPPING=1", "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn placement_away_at_the_start_is_waited_for_and_reported_once() {
    let nodes = ["a", "b", "c"];
    let bench = Bench::with(host(&nodes));
    bench.placement.set(PlacementBehaviour::Refused);
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            let messages = bench.notifications_within(Duration::from_mins(30)).await;
            assert_eq!(running.codes(), ["placement-away"]);
            let state = running.state();
            assert_eq!(state.phase, Phase::Starting);
            assert!(
                state.nodes.values().all(|node| node.failures > 10),
                "it kept retrying"
            );
            assert!(
                messages
                    .iter()
                    .filter(|line| line.starts_with("EXTEND_TIMEOUT_USEC"))
                    .count()
                    > 60,
                "{messages:?}"
            );
            assert!(
                messages
                    .iter()
                    .any(|line| line.contains("placement:8778 refuses connections")),
                "{messages:?}"
            );
            assert!(!messages.contains(&"READY=1".to_owned()), "{messages:?}");
            // The backoff is capped: thirty minutes are about sixty attempts for each node, not thousands.
            let requests = bench.placement.requests().len();
            assert!((60..600).contains(&requests), "{requests}");
            bench.placement.set(PlacementBehaviour::Fine);
            running.started().await;
            assert!(running.codes().is_empty());
            assert!(nodes.iter().all(|node| bench.placement.has(node)));
            assert!(bench.notifications().contains(&"READY=1".to_owned()));
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_hypervisor_away_at_the_start_is_waited_for() {
    let bench = Bench::with(host(&["a"]));
    bench.driver.show(ScriptedObservation::Away);
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            sleep(Duration::from_mins(5)).await;
            assert_eq!(running.codes(), ["hypervisor-away"]);
            assert!(
                bench
                    .messages()
                    .iter()
                    .any(|line| line.contains("test:///default does not answer"))
            );
            assert!(bench.placement.requests().is_empty());
            bench.driver.show(ScriptedObservation::View(host(&["a"])));
            running.started().await;
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hypervisor_without_a_node_is_not_ready() {
    let bench = Bench::with(host(&[]));
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            sleep(Duration::from_mins(5)).await;
            assert_eq!(running.codes(), ["no-node"]);
            assert!(!bench.notifications().contains(&"READY=1".to_owned()));
            bench.driver.show(ScriptedObservation::View(host(&["a"])));
            running.started().await;
            assert!(running.codes().is_empty());
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waiting_cannot_repair_ends_the_start_with_its_reason() {
    let cases = [
        (
            PlacementBehaviour::Status("GET ", StatusCode::FORBIDDEN),
            ExitReason::Configuration,
            "role add",
        ),
        (
            PlacementBehaviour::Status("GET ", StatusCode::UNAUTHORIZED),
            ExitReason::Configuration,
            "auth_type",
        ),
        (
            PlacementBehaviour::Status("PUT ", StatusCode::BAD_REQUEST),
            ExitReason::DependencyGone,
            "400",
        ),
    ];
    for (behaviour, reason, words) in cases {
        let bench = Bench::with(host(&["a"]));
        bench.placement.set(behaviour.clone());
        let error = bench.run_to_end(bench.agent()).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{behaviour:?}: {error:?}");
        let messages = bench.messages().join("\n");
        assert!(messages.contains(words), "{behaviour:?}: {messages}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_misconfigured_host_ends_the_start() {
    let bench = Bench::with(host(&["a"]));
    bench.driver.show(ScriptedObservation::Misconfigured);
    let error = bench.run_to_end(bench.agent()).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Configuration);
    assert!(
        bench
            .messages()
            .iter()
            .any(|line| line.contains("CPU 99 does not exist"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_identity_ends_the_start_and_names_the_remedy() {
    let bench = Bench::with(host(&["a"]));
    bench.run_to_end(bench.once(MINUTE)).await.unwrap();
    std::fs::remove_file(bench.state_file("compute_id")).unwrap();
    bench.messages();
    let error = bench.run_to_end(bench.agent()).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Configuration);
    assert!(
        bench
            .messages()
            .iter()
            .any(|line| line.contains("restore the file"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_renamed_host_is_refused_or_accepted() {
    let bench = Bench::with(host(&["old"]));
    bench.run_to_end(bench.once(MINUTE)).await.unwrap();
    bench.driver.show(ScriptedObservation::View(host(&["new"])));
    let error = bench.run_to_end(bench.agent()).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Configuration);
    let mut agent = bench.once(MINUTE);
    agent.live.tracker.rename = Rename::Accept;
    bench.run_to_end(agent).await.unwrap();
    assert!(bench.placement.has("new") && !bench.placement.has("old"));
}

#[tokio::test(start_paused = true)]
async fn a_rename_to_a_name_that_another_has_renames_nothing() {
    let bench = Bench::with(host(&["old"]));
    bench.run_to_end(bench.once(MINUTE)).await.unwrap();
    bench.placement.plant("new");
    bench.driver.show(ScriptedObservation::View(host(&["new"])));
    let mut agent = bench.once(MINUTE);
    agent.live.tracker.rename = Rename::Accept;
    let before = bench.placement.requests().len();
    let error = bench.run_to_end(agent).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Configuration);
    let requests = bench.placement.requests().split_off(before);
    assert!(
        requests.iter().all(|line| line.starts_with("GET ")),
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_that_wait_do_not_hurry_a_hypervisor_that_is_away() {
    let bench = Bench::with(host(&["a"]));
    bench.placement.set(PlacementBehaviour::Refused);
    let (ended, ()) = bench
        .run(bench.agent(), async |_| {
            sleep(MINUTE * 10).await;
            bench.driver.show(ScriptedObservation::Away);
            let observed = bench.driver.observed();
            sleep(MINUTE * 10).await;
            let more = bench.driver.observed() - observed;
            assert!(
                (10..60).contains(&more),
                "{more} observations in ten minutes"
            );
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_start_reshapes_and_a_refused_reshape_ends_it() {
    for answer in [None, Some(StatusCode::FORBIDDEN)] {
        let bench = Bench::with(host(&["a"]));
        bench.run_to_end(bench.once(MINUTE)).await.unwrap();
        bench.driver.change(|view| {
            view.nodes
                .values_mut()
                .for_each(|node| node.model.vgpu = VgpuModel::PerGpu)
        });
        bench.messages();
        if let Some(status) = answer {
            bench
                .placement
                .set(PlacementBehaviour::Status("/reshaper", status));
        }
        let ended = bench.run_to_end(bench.once(MINUTE)).await;
        let text = bench.metrics.render();
        if answer.is_none() {
            ended.unwrap();
            assert_eq!(
                bench
                    .placement
                    .inventory("a_pci_0000_84_00_0", "VGPU", "total"),
                4
            );
            assert!(
                text.contains("berth_reshapes_total{result=\"done\"} 1"),
                "{text}"
            );
            continue;
        }
        assert_eq!(ended.unwrap_err().reason(), ExitReason::ReshapeFailed);
        assert!(
            bench
                .messages()
                .iter()
                .any(|line| line.contains("needs the role service"))
        );
        assert!(
            text.contains("berth_reshapes_total{result=\"failed\"} 1"),
            "{text}"
        );
        assert!(
            !bench.placement.has("a_pci_0000_84_00_0"),
            "no partly created provider is left"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_reshape_leaves_a_child_that_somebody_else_made_and_marked() {
    let bench = Bench::with(host(&["a"]));
    bench.run_to_end(bench.once(MINUTE)).await.unwrap();
    bench.driver.change(|view| {
        view.nodes
            .values_mut()
            .for_each(|node| node.model.vgpu = VgpuModel::PerGpu)
    });
    let child = "a_pci_0000_84_00_0";
    bench.placement.plant_child("a", child, "CUSTOM_THEIRS");
    let forbidden = StatusCode::FORBIDDEN;
    bench
        .placement
        .set(PlacementBehaviour::Status("/reshaper", forbidden));
    let error = bench.run_to_end(bench.once(MINUTE)).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::ReshapeFailed);
    assert!(bench.placement.has_trait(child, "CUSTOM_THEIRS"));
}

#[tokio::test(start_paused = true)]
async fn once_is_a_start_and_a_tick() {
    let bench = Bench::with(host(&["a"]));
    bench.run_to_end(bench.once(MINUTE)).await.unwrap();
    assert_eq!(
        bench.driver.observed(),
        2,
        "one for the start, one for the tick"
    );
}

#[tokio::test(start_paused = true)]
async fn once_reports_what_it_waited_for_in_vain() {
    let cases = [
        (
            PlacementBehaviour::Refused,
            ScriptedObservation::View(host(&["a"])),
            "refuses connections",
        ),
        (
            PlacementBehaviour::Fine,
            ScriptedObservation::Away,
            "does not answer",
        ),
        (
            PlacementBehaviour::Fine,
            ScriptedObservation::Hang,
            "did not answer",
        ),
    ];
    for (behaviour, observation, words) in cases {
        let bench = Bench::with(host(&["a"]));
        bench.placement.set(behaviour);
        bench.driver.show(observation);
        let error = bench
            .run_to_end(bench.once(Duration::from_secs(20)))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), ExitReason::DependencyGone);
        let text = berth_model::error_chain(&error);
        assert!(text.contains("20s") && text.contains(words), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_service_as_a_bug() {
    let bench = Bench::with(host(&["a"]));
    bench.driver.show(ScriptedObservation::Panic);
    let error = bench.run_to_end(bench.agent()).await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Bug);
    assert!(error.to_string().contains("planted"), "{error}");
}
