//! Tests of stored secrets: they are removed with the instance, even if it was never journaled.

use berth_agent_journal::samples::{guest, request};

use crate::fault_harness::{FaultHarness, FaultPoint};
use crate::guests::GuestsError;

#[tokio::test]
async fn a_deletion_removes_the_secrets_of_a_request_that_a_kill_left_unjournaled() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    harness.kill_at(Some(FaultPoint {
        at: 1,
        after: false,
    }));
    let guests = harness.guests();
    let asked = request(1, &[1]);
    tokio::select! {
        _ = guests.create(&asked) => panic!("the agent should have been killed"),
        () = harness.wait_for_kill() => {}
    }
    assert!(harness.world().stored_secrets.contains(&guest(1)));
    harness.kill_agent();
    let guests = harness.guests();
    guests.create(&request(2, &[2])).await.unwrap();
    let missing = guests.delete(guest(1)).await;
    assert!(
        matches!(missing, Err(GuestsError::NotFound { .. })),
        "{missing:?}"
    );
    let kept = harness.world().stored_secrets.clone();
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [guest(2)]);
}

#[tokio::test]
async fn the_secrets_of_a_guest_known_only_to_the_hypervisor_remain() {
    let lost = FaultHarness::new().await;
    lost.complete_late_spawn(request(1, &[1]).spec());
    lost.world().stored_secrets.insert(guest(1));
    let orphan = lost.guests().delete(guest(1)).await;
    assert!(
        matches!(orphan, Err(GuestsError::Orphan { .. })),
        "{orphan:?}"
    );
    assert!(lost.world().stored_secrets.contains(&guest(1)));
}
