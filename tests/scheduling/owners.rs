//! One UUID, and two conductors that do not know of each other.

use berth_conductor::{BootRequest, Conductor, GuestRunOutcome};
use berth_scheduler::SchedulerOptions;
use berth_tests::boot::{asked, guest};
use berth_tests::cloud::Cloud;
use berth_tests::fleet::{Fleet, hosts};
use serde_json::json;

fn named(name: &str) -> BootRequest {
    asked(&json!({
        "uuid": guest(1).to_string(),
        "name": name,
        "flavor": {"name": "one", "vcpus": 1, "ram_mb": 512, "disk_gb": 1},
    }))
}

async fn boot(conductor: Conductor, request: BootRequest) -> GuestRunOutcome {
    conductor
        .create(&request)
        .await
        .expect("a journal in memory");
    conductor.reconcile_guest(request.uuid()).await
}

/// The other one is asked when the first is about to claim. On one host both want the very same.
#[tokio::test]
async fn the_second_conductor_does_not_touch_the_guest_and_allocations_of_the_first() {
    for (name, many) in [("other", 1), ("first", 1), ("other", 4)] {
        let fleet = Fleet::over(Cloud::in_process().await, &hosts(many, "cell1", 4)).await;
        let second = fleet.conductor(SchedulerOptions::default()).await;
        let asked_meanwhile = second.clone();
        let placement = fleet.placement_with(async move || {
            let GuestRunOutcome::Failed { reason } = boot(asked_meanwhile, named(name)).await
            else {
                panic!("the UUID is another's");
            };
            assert!(reason.contains("is owned by another conductor"), "{reason}");
        });
        let first = fleet
            .conductor_over(SchedulerOptions::default(), placement)
            .await;
        let end = boot(first, named("first")).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        let held = async || fleet.held(guest(1)).await.map(|held| held.resources.len());
        assert_eq!(held().await, Some(3), "{name} on {many}");
        // Nor does its end take anything.
        second.delete(guest(1)).await.unwrap();
        let end = second.reconcile_guest(guest(1)).await;
        assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
        assert_eq!(held().await, Some(3), "{name} on {many}");
        let guests = fleet.agent.guests();
        assert_eq!(guests[&guest(1)].name, "first");
        assert_eq!(fleet.agent.broken(), [""; 0]);
    }
}

#[tokio::test]
async fn a_claim_that_arrives_twice_is_one_claim() {
    let fleet = Fleet::over(Cloud::in_process().await, &hosts(1, "cell1", 4)).await;
    let conductor = fleet
        .conductor_over(SchedulerOptions::default(), fleet.placement_twice())
        .await;
    let end = boot(conductor.clone(), named("one")).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    conductor.delete(guest(1)).await.unwrap();
    let end = conductor.reconcile_guest(guest(1)).await;
    assert!(matches!(end, GuestRunOutcome::Gone), "{end:?}");
    assert_eq!(fleet.held(guest(1)).await, None);
    assert_eq!(fleet.hosts.owned_guests().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_concurrent_requests_one_gets_the_guest_with_its_claim() {
    for round in 0..20 {
        let fleet = Fleet::over(Cloud::in_process().await, &hosts(2, "cell1", 4)).await;
        let mut ends = tokio::task::JoinSet::new();
        for name in ["one", "two"] {
            let conductor = fleet.conductor(SchedulerOptions::default()).await;
            ends.spawn(async move { (name, boot(conductor, named(name)).await) });
        }
        let ends = ends.join_all().await;
        let runs = ends
            .iter()
            .filter(|it| matches!(it.1, GuestRunOutcome::Active));
        let runs: Vec<_> = runs.map(|it| it.0).collect();
        assert_eq!(runs.len(), 1, "{round}: {ends:?}");
        let guests = fleet.agent.guests();
        assert_eq!(guests[&guest(1)].name, runs[0], "{round}: {ends:?}");
        assert!(fleet.held(guest(1)).await.is_some(), "{round}: {ends:?}");
        assert_eq!(fleet.agent.broken(), [""; 0]);
    }
}
