//! Up to 64 concurrent schedulers.
//!
//!   BERTH_CROWD=whole   OpenStack's Placement gets as many hosts and schedulers as the built-in one, on PostgreSQL as in a cloud
//!                       of that size; this takes minutes

use std::time::Duration;

use berth_conductor::{Conductor, GuestRunOutcome};
use berth_scheduler::SchedulerOptions;
use berth_tests::boot::{asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, FleetHost, hosts};
use berth_tests::peer::{PlacementSettings, RealPlacement};
use berth_tests::sample::up_to;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How often a blocked boot is retried.
const PATIENCE: usize = 1000;
/// CPUs of a host.
const VCPUS: u64 = 4;

/// Boots the n-th guest of one CPU by one of the conductors.
async fn boot(conductors: &[Conductor], number: u32) -> GuestRunOutcome {
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
    let mut end = conductor.reconcile_guest(request.uuid()).await;
    for _ in 0..PATIENCE {
        // An overloaded Placement reports it, or does not answer; a conductor then retries.
        let GuestRunOutcome::Blocked { .. } = end else {
            break;
        };
        sleep(Duration::from_millis(100)).await;
        end = conductor.reconcile_guest(request.uuid()).await;
    }
    end
}

/// So many conductors, each with a scheduler of its own, fill so many hosts.
async fn fill(cloud: Cloud, many: usize, schedulers: usize) {
    let hosts: Vec<FleetHost> = hosts(many, "cell1", VCPUS);
    let fleet = Fleet::over(cloud, &hosts).await;
    let mut conductors = Vec::new();
    for _ in 0..schedulers {
        conductors.push(fleet.conductor(SchedulerOptions::default()).await);
    }
    let units = u32::try_from(many * 4).expect("a few");
    let mut boots = JoinSet::new();
    for number in 0..units {
        let conductors = conductors.clone();
        boots.spawn(async move { boot(&conductors, number).await });
    }
    for end in boots.join_all().await {
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    }
    for host in &hosts {
        assert_eq!(fleet.claimed(host).await, VCPUS, "{}", host.name);
    }
    let built = fleet.built();
    assert!(built.values().all(|guests| *guests == 4), "{built:?}");
    assert_eq!(built.len(), many);
    assert_eq!(fleet.agent.broken(), [""; 0]);
    // There is not one unit more.
    let GuestRunOutcome::Failed { reason } = boot(&conductors, units).await else {
        panic!("there is no room for another");
    };
    assert!(
        reason.starts_with("No valid host was found: no host has"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_schedulers_fill_their_hosts_to_the_last_unit() {
    let (hosts, schedulers) = (up_to(100, 40), up_to(64, 32));
    let cloud = Cloud::in_process().await;
    fill(cloud, hosts as usize, schedulers as usize).await;
}

/// Where it tries a claim again by itself, OpenStack's Placement 16 grants more than there is; the conductor tries again as well.
fn without_retries() -> PlacementSettings {
    let option = ("allocation_conflict_retry_count", "1");
    PlacementSettings {
        options: vec![(option.0.to_owned(), option.1.to_owned())],
        ..PlacementSettings::on_postgres()
    }
}

/// Two workers on SQLite, so that claims meet.
fn two_workers() -> PlacementSettings {
    PlacementSettings {
        workers: 2,
        ..PlacementSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_openstacks_placement_they_do_too() {
    let (settings, hosts, schedulers) = match std::env::var_os("BERTH_CROWD") {
        None => (two_workers(), 12, 16),
        Some(_) => (without_retries(), 100, 64),
    };
    let placement = RealPlacement::lease(settings).expect("Placement starts");
    fill(Cloud::at(&placement.url()), hosts, schedulers).await;
}
