//! Tests of actions with IDs: an action that is repeated because its answer was lost runs only once.

use berth_agent_journal::samples::guest;
use berth_virt::{GuestPowerOutcome, PowerAction};
use berth_wire::guest::ActionId;

use crate::fault_harness::{FaultHarness, FaultPoint, SimulatedFailure, base, image};
use crate::outcome::ReconcileOutcome;
use crate::tests::invariants;
use crate::tests::transitions::{file, is_whole, kills, running};
use crate::transition::TransitionRequest;

const ROOT: &str = "disk";

fn id(text: &str) -> ActionId {
    text.parse().unwrap()
}

fn rebuild() -> TransitionRequest {
    TransitionRequest::Rebuild {
        image: image('c'),
        preserve_ephemeral: false,
        machine: None,
    }
}

/// The content of the root disk.
fn root(harness: &FaultHarness) -> String {
    harness.world().files[&file(ROOT)].clone()
}

/// The tenant writes to the disk after the rebuild.
fn writes(harness: &FaultHarness) {
    let work = "tenant's later work".to_owned();
    harness.world().files.insert(file(ROOT), work);
}

#[tokio::test]
async fn a_completed_rebuild_is_not_repeated_by_its_id_even_after_a_kill() {
    let harness = running().await;
    let asked = id("req-1.7");
    let change = rebuild();
    let guests = harness.guests();
    let rebuilt = guests.transition_once(guest(1), &change, Some(&asked));
    rebuilt.await.unwrap();
    assert_eq!(root(&harness), base('c'));
    writes(&harness);
    for _ in 0..2 {
        let crossings = harness.history().len();
        // Another agent on the same journal.
        let guests = harness.guests();
        let again = guests.transition_once(guest(1), &change, Some(&asked));
        again.await.unwrap();
        let crossed = harness.history().split_off(crossings);
        assert!(
            crossed.iter().all(|line| line.contains(" read ")),
            "{crossed:?}"
        );
        assert_eq!(root(&harness), "tenant's later work");
    }
    // An action with another ID, or without one, is a new rebuild.
    for other in [Some(id("req-2.8")), None] {
        writes(&harness);
        let guests = harness.guests();
        let again = guests.transition_once(guest(1), &change, other.as_ref());
        again.await.unwrap();
        assert_eq!(root(&harness), base('c'), "{other:?}");
    }
}

#[tokio::test]
async fn a_kill_at_any_point_of_a_rebuild_never_loses_later_writes() {
    let asked = id("req-1.7");
    let change = rebuild();
    let once = async |harness: &FaultHarness, kill: Option<FaultPoint>| {
        harness.kill_at(kill);
        let guests = harness.guests();
        tokio::select! {
            biased;
            () = harness.wait_for_kill() => {}
            done = guests.transition_once(guest(1), &change, Some(&asked)) => done.unwrap(),
        }
    };
    let clean = running().await;
    once(&clean, None).await;
    let (mut before, mut after) = (0, 0);
    for kill in kills(clean.count()) {
        let harness = running().await;
        once(&harness, Some(kill)).await;
        harness.kill_agent();
        // The next agent continues the journaled action before any request.
        let guests = harness.guests();
        let end = guests.reconcile_instance(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{kill:?}: {end:?}"
        );
        let is_rebuilt = root(&harness) == base('c');
        if is_rebuilt {
            writes(&harness);
        }
        once(&harness, None).await;
        let expected = match is_rebuilt {
            true => "tenant's later work".to_owned(),
            false => base('c'),
        };
        assert_eq!(root(&harness), expected, "{kill:?}");
        is_whole(&harness, &harness.guests()).await;
        invariants::check_at_rest(&harness).await;
        *(if is_rebuilt { &mut after } else { &mut before }) += 1;
    }
    assert!(before > 3 && after > 10, "{before} before, {after} after");
}

#[tokio::test]
async fn a_blocked_transition_is_continued_by_its_id() {
    let harness = running().await;
    let asked = id("req-1.7");
    let guests = harness.guests();
    harness.add_failure(SimulatedFailure::RedefineFails);
    for _ in 0..2 {
        let held = guests
            .transition_once(guest(1), &rebuild(), Some(&asked))
            .await;
        assert!(held.is_err());
    }
    harness.clear_failures();
    let done = guests
        .transition_once(guest(1), &rebuild(), Some(&asked))
        .await;
    done.unwrap();
    assert_eq!(root(&harness), base('c'));
    writes(&harness);
    let again = guests
        .transition_once(guest(1), &rebuild(), Some(&asked))
        .await;
    again.unwrap();
    assert_eq!(root(&harness), "tenant's later work");
}

#[tokio::test]
async fn a_reboot_is_done_once_for_its_id() {
    let harness = running().await;
    for action in [PowerAction::HardReboot, PowerAction::SoftReboot] {
        let asked = id(&format!("req-{action:?}"));
        for expected in [
            GuestPowerOutcome::Done,
            GuestPowerOutcome::Unchanged,
            GuestPowerOutcome::Unchanged,
        ] {
            let crossings = harness.history().len();
            let guests = harness.guests();
            let acted = guests.power_once(guest(1), action, Some(&asked)).await;
            assert_eq!(acted.unwrap(), expected, "{action:?}");
            let crossed = harness.history().split_off(crossings);
            let asks_driver = crossed.iter().any(|line| line.contains("driver write"));
            assert_eq!(
                asks_driver,
                expected == GuestPowerOutcome::Done,
                "{crossed:?}"
            );
        }
        let guests = harness.guests();
        let other = guests
            .power_once(guest(1), action, Some(&id("req-2")))
            .await;
        assert_eq!(other.unwrap(), GuestPowerOutcome::Done);
    }
}

#[tokio::test]
async fn a_hard_reboot_that_switched_the_guest_off_is_not_done_again_once_it_is_back() {
    let harness = running().await;
    let asked = id("req-1.7");
    let guests = harness.guests();
    let reboot = async || {
        let reboot = PowerAction::HardReboot;
        guests.power_once(guest(1), reboot, Some(&asked)).await
    };
    harness.add_failure(SimulatedFailure::StartFails);
    assert!(reboot().await.is_err());
    harness.clear_failures();
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(reboot().await.unwrap(), GuestPowerOutcome::Unchanged);
}
