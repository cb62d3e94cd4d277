//! Sixty-four schedulers at once.
//!
//!   BERTH_CROWD=whole   OpenStack's Placement has as many hosts and schedulers as the built-in one; minutes

use std::time::Duration;

use berth_conductor::{Conductor, JourneyEnd};
use berth_scheduler::Options;
use berth_tests::boot::{asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, FleetHost, hosts};
use berth_tests::peer::{PlacementSettings, RealPlacement};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often a Placement is asked again that is locked.
const PATIENCE: usize = 1000;
/// CPUs of a host.
const VCPUS: u64 = 4;

/// Boots the n-th guest of one CPU by one of the conductors.
async fn boot(conductors: &[Conductor], number: u32) -> JourneyEnd {
    let request = asked(&json!({
        "uuid": guest(number).to_string(),
        "name": format!("vm{number}"),
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
    }));
    let conductor = &conductors[number as usize % conductors.len()];
    conductor
        .create(&request)
        .await
        .expect("a journal in memory");
    for _ in 0..PATIENCE {
        match conductor.journey(request.uuid()).await {
            // A Placement with more writers than its SQLite can take says so, and is asked again.
            JourneyEnd::Held { reason } if reason.contains("database is locked") => {
                sleep(Duration::from_millis(100)).await;
            }
            end => return end,
        }
    }
    panic!("Placement's database stays locked")
}

/// So many conductors, each with a scheduler of its own, fill so many hosts.
async fn fill(cloud: Cloud, many: usize, schedulers: usize) {
    let hosts: Vec<FleetHost> = hosts(many, "cell1", VCPUS);
    let fleet = Fleet::over(cloud, &hosts).await;
    let mut conductors = Vec::new();
    for _ in 0..schedulers {
        conductors.push(fleet.conductor(Options::default()).await);
    }
    let units = u32::try_from(many * 4).expect("a few");
    let mut boots = JoinSet::new();
    for number in 0..units {
        let conductors = conductors.clone();
        boots.spawn(async move { boot(&conductors, number).await });
    }
    for end in boots.join_all().await {
        assert!(matches!(end, JourneyEnd::Active), "{end:?}");
    }
    for host in &hosts {
        assert_eq!(fleet.claimed(host).await, VCPUS, "{}", host.name);
    }
    let built = fleet.built();
    assert!(built.values().all(|guests| *guests == 4), "{built:?}");
    assert_eq!(built.len(), many);
    assert_eq!(fleet.agent.broken(), [""; 0]);
    // There is not one unit more.
    let JourneyEnd::Failed { reason } = boot(&conductors, units).await else {
        panic!("there is no room for another");
    };
    assert!(
        reason.starts_with("No valid host was found: no host has"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_schedulers_fill_a_hundred_hosts_to_the_last_unit() {
    fill(Cloud::in_process().await, 100, 64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_openstacks_placement_they_do_too() {
    let placement = RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
    let (hosts, schedulers) = match std::env::var_os("BERTH_CROWD") {
        None => (20, 16),
        Some(_) => (100, 64),
    };
    fill(Cloud::at(&placement.url()), hosts, schedulers).await;
}
