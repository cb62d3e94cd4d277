//! Tests of build permits: projects get their turns one after the other.

use std::time::Duration;

use berth_agent_journal::samples::request_of;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::fault_harness::{FaultHarness, with_disks};

/// The guests of the project that builds many.
const MANY: u32 = 20;

#[tokio::test]
async fn a_guest_of_another_project_is_built_next_however_many_one_project_has_waiting() {
    let harness = FaultHarness::new().await;
    let guests = harness.guests();
    let builds = &guests.inner.context.builds;
    let mut permits = Vec::new();
    for _ in 0..10 {
        permits.push(builds.acquire("test".to_owned()).await);
    }
    for number in 1..=MANY {
        let created = guests.create(&request_of("greedy", number)).await;
        created.unwrap();
    }
    let other = MANY + 1;
    guests.create(&request_of("other", other)).await.unwrap();
    let is_built = async {
        while builds.waiting() <= MANY as usize {
            yield_now().await;
        }
        // The builds go on one at a time.
        drop(permits.pop());
        while !harness.exists_on_hypervisor(other) {
            yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), is_built).await.unwrap();
    let built = harness.world().guests.len();
    assert!(built <= 5, "{built} guests were built before it");
}

#[tokio::test]
async fn images_are_fetched_without_a_permit_so_that_a_stalled_source_delays_only_its_own_guests() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    let guests = harness.guests();
    let builds = &guests.inner.context.builds;
    let mut permits = Vec::new();
    for _ in 0..10 {
        permits.push(builds.acquire("test".to_owned()).await);
    }
    guests.create(&with_disks()).await.unwrap();
    let waits = async {
        while builds.waiting() == 0 {
            yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), waits).await.unwrap();
    let calls = harness.history();
    let has = |call: &str| calls.iter().any(|it| it == call);
    assert!(has("images write fetch"), "{calls:?}");
    assert!(!has("sysfs write prepare"), "{calls:?}");
    // A deletion does not wait for a permit.
    let uuid = with_disks().uuid();
    guests.delete(uuid).await.unwrap();
    let gone = async {
        while builds.waiting() > 0 {
            yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.unwrap();
}
