//! Tests of stops.

use std::time::Duration;

use berth_agent_api::Phase;
use tokio::time::{Instant, sleep};

use crate::service::error::ExitReason;
use crate::service::tests::bench::Bench;
use crate::service::tests::driver::{ScriptedObservation, host};
use crate::service::tests::placement::PlacementBehaviour;

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_the_flush_under_way() {
    let bench = Bench::with(host(&["a"]));
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            bench
                .placement
                .set(PlacementBehaviour::Held("/inventories".to_owned()));
            bench.driver.set_memory(20_000);
            bench.driver.event();
            sleep(Duration::from_secs(2)).await;
            running.shutdown.cancel();
            sleep(Duration::from_secs(5)).await;
            assert_eq!(running.state().phase, Phase::Stopping);
            assert!(bench.notifications().contains(&"STOPPING=1".to_owned()));
            assert_eq!(bench.placement.inventory("a", "MEMORY_MB", "total"), 16_384);
            bench.placement.set(PlacementBehaviour::Fine);
        })
        .await;
    ended.unwrap();
    assert_eq!(
        bench.placement.inventory("a", "MEMORY_MB", "total"),
        20_000,
        "it was finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_no_longer_than_it_may() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    agent.live.graceful_shutdown_timeout = Duration::from_secs(7);
    let (ended, asked) = bench
        .run(agent, async |running| {
            running.started().await;
            bench
                .placement
                .set(PlacementBehaviour::Held("/inventories".to_owned()));
            bench.driver.set_memory(20_000);
            bench.driver.event();
            sleep(Duration::from_secs(2)).await;
            Instant::now()
        })
        .await;
    ended.unwrap();
    assert_eq!(asked.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_not_outlasted_by_a_placement_that_accepts_and_is_silent() {
    let bench = Bench::with(host(&["a"]));
    bench
        .placement
        .set(PlacementBehaviour::Held("GET ".to_owned()));
    let given = Duration::from_secs(3);
    let (ended, notifications) = bench
        .run(bench.once(given), async |_| {
            bench.notifications_within(given * 2).await
        })
        .await;
    assert_eq!(ended.unwrap_err().reason(), ExitReason::DependencyGone);
    let last = notifications.last().unwrap();
    assert!(
        last.starts_with("STATUS=not done within 3s"),
        "{notifications:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_an_observation_of_the_hypervisor() {
    let bench = Bench::with(host(&["a"]));
    let (ended, asked) = bench
        .run(bench.agent(), async |running| {
            running.started().await;
            bench.driver.show(ScriptedObservation::Hang);
            sleep(Duration::from_mins(2)).await;
            Instant::now()
        })
        .await;
    ended.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_start_ends_well() {
    let bench = Bench::with(host(&["a"]));
    bench.placement.set(PlacementBehaviour::Refused);
    let (ended, ()) = bench
        .run(bench.agent(), async |_| sleep(Duration::from_mins(3)).await)
        .await;
    ended.unwrap();
}
