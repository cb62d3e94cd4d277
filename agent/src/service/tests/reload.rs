//! Tests of SIGHUP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_model::AllocationRatio;
use tokio::time::sleep;

use crate::service::LiveOptions;
use crate::service::tests::bench::Bench;
use crate::service::tests::driver::host;
use crate::service::tests::placement::PlacementBehaviour;
use crate::triggers::Interval;

#[tokio::test(start_paused = true)]
async fn a_good_configuration_is_in_force_at_once_and_a_bad_one_changes_nothing() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    let next: Arc<Mutex<Result<LiveOptions, String>>> =
        Arc::new(Mutex::new(Err("berth.toml:3: no".to_owned())));
    let read = Arc::clone(&next);
    agent.reload = Some(Arc::new(move || read.lock().unwrap().clone()));
    let mut better = agent.live.clone();
    better.tracker.ratios.cpu = AllocationRatio::new(2.0).ok();
    better.interval = Interval::Off;
    better.config = serde_json::json!({"cpu_allocation_ratio": 2.0});
    let (ended, ()) = bench
        .run(agent, async |running| {
            running.started().await;
            bench.messages();
            running.hang_up().await;
            sleep(Duration::from_secs(1)).await;
            let messages = bench.notifications();
            assert!(
                messages[0].starts_with("RELOADING=1\nMONOTONIC_USEC="),
                "{messages:?}"
            );
            assert_eq!(messages[1], "READY=1", "{messages:?}");
            assert_eq!(running.codes(), ["config-reload-failed"]);
            assert!(
                running
                    .state()
                    .summary(tokio::time::Instant::now())
                    .contains("berth.toml:3: no")
            );
            assert_eq!(
                bench.placement.inventory("a", "VCPU", "allocation_ratio"),
                4.0
            );

            *next.lock().unwrap() = Ok(better);
            running.hang_up().await;
            sleep(Duration::from_secs(1)).await;
            assert!(running.codes().is_empty());
            assert_eq!(
                bench.placement.inventory("a", "VCPU", "allocation_ratio"),
                2.0
            );
            assert_eq!(running.state().config["cpu_allocation_ratio"], 2.0);
            let observed = bench.driver.observed();
            sleep(Duration::from_hours(1)).await;
            assert_eq!(bench.driver.observed(), observed, "the timer is off");
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reload_during_the_start_does_not_say_ready() {
    let bench = Bench::with(host(&["a"]));
    bench.placement.set(PlacementBehaviour::Refused);
    let (ended, ()) = bench
        .run(bench.agent(), async |running| {
            sleep(Duration::from_mins(1)).await;
            running.hang_up().await;
            running.hang_up().await;
            sleep(Duration::from_mins(1)).await;
            assert!(
                bench
                    .notifications()
                    .iter()
                    .all(|line| line != "READY=1" && !line.starts_with("RELOADING"))
            );
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reload_reads_placement_again() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    agent.live.tracker.association_refresh = None;
    let (ended, ()) = bench
        .run(agent, async |running| {
            running.started().await;
            let before = bench.placement.requests().len();
            running.hang_up().await;
            sleep(Duration::from_secs(1)).await;
            let requests = bench.placement.requests();
            assert!(
                requests[before..]
                    .iter()
                    .any(|line| line.contains("in_tree=")),
                "{requests:?}"
            );
        })
        .await;
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_how_often_the_tree_is_compared() {
    let bench = Bench::with(host(&["a"]));
    let mut agent = bench.agent();
    agent.live.tracker.association_refresh = None;
    let mut often = agent.live.clone();
    often.tracker.association_refresh = Some(Duration::from_mins(5));
    agent.reload = Some(Arc::new(move || Ok(often.clone())));
    let (ended, ()) = bench
        .run(agent, async |running| {
            running.started().await;
            let compared_in_an_hour = async || {
                sleep(Duration::from_secs(1)).await;
                let before = bench.placement.requests().len();
                sleep(Duration::from_hours(1)).await;
                let requests = bench.placement.requests().split_off(before);
                requests.iter().any(|line| line.contains("in_tree="))
            };
            assert!(!compared_in_an_hour().await);
            running.hang_up().await;
            assert!(compared_in_an_hour().await);
        })
        .await;
    ended.unwrap();
}
