//! Tests of instances with the fault harness and the real accelerator client: each operation is killed at every call,
//! and again at every call of its recovery.

mod action_ids;
mod build_permits;
mod invariants;
mod power_actions;
mod stored_secrets;
pub(super) mod transitions;

mod fault_sweep;

use std::time::Duration;

use berth_agent_journal::samples::{arq, guest, request};
use berth_agent_journal::{AcceptOutcome, SpawnStep};
use berth_wire::compute::EventStatus;

use crate::fault_harness::{FaultHarness, SimulatedFailure};
use crate::spawn::MAX_RESET_WAIT;
use crate::*;

#[tokio::test]
async fn a_guest_runs_with_exactly_the_devices_that_are_bound_for_it() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    let guests = harness.guests();
    guests.create(&request(1, &[1, 2])).await.unwrap();
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(
        harness.devices_of_running_guest(1),
        ["0000:01:00.0", "0000:02:00.0"]
    );
    invariants::check_at_rest(&harness).await;
}

#[tokio::test]
async fn each_mishap_undoes_the_guest_and_leaves_its_requests_unbound_and_there() {
    for (failure, sentence) in [
        (SimulatedFailure::BindFailed(2), "could not be bound"),
        (
            SimulatedFailure::Bound(2, "compute2", 1),
            "bound on host compute2",
        ),
        (SimulatedFailure::Bound(2, "compute1", 9), "bound for guest"),
        (
            SimulatedFailure::TestPci(2),
            "behind which there is no device",
        ),
        (SimulatedFailure::Missing(2), "does not exist"),
        (
            SimulatedFailure::Extra(3),
            "is missing in the guest's request",
        ),
        (
            SimulatedFailure::DeviceUnhealthy(2),
            "cannot be assigned to a guest",
        ),
        (SimulatedFailure::PrepareFails(2), "no such function"),
        (SimulatedFailure::DefineFails, "refused virDomainDefineXML"),
        (SimulatedFailure::StartFails, "refused virDomainCreate"),
        (SimulatedFailure::HeldByForeigner(2), "is in use by guest"),
        (SimulatedFailure::NeverBound(2), "arq_binding_timeout"),
        (SimulatedFailure::ServiceAway, "did not answer"),
    ] {
        let harness = FaultHarness::new().await;
        harness.bind(1, &[1, 2]);
        harness.add_failure(failure);
        let guests = harness.guests();
        guests.create(&request(1, &[1, 2])).await.unwrap();
        let end = guests.reconcile_instance(guest(1)).await;
        let reason = match end {
            ReconcileOutcome::Undone { reason } => reason,
            // Its requests cannot be released while the service is down.
            ReconcileOutcome::Blocked { .. } if failure == SimulatedFailure::ServiceAway => {
                harness.clear_failures();
                let ReconcileOutcome::Undone { reason } = guests.reconcile_instance(guest(1)).await
                else {
                    panic!("{failure:?}: undone once the service is back");
                };
                reason
            }
            end => panic!("{failure:?}: {end:?}"),
        };
        assert!(reason.contains(sentence), "{failure:?}: {reason}");
        assert!(
            harness.devices_of_running_guest(1).is_empty(),
            "{failure:?}"
        );
        invariants::check_at_rest(&harness).await;
        let record = guests.show(guest(1)).await.unwrap();
        assert_eq!(record.open(), None, "{failure:?}");
        // A deletion removes the instance's own requests and no others.
        guests.delete(guest(1)).await.unwrap();
        assert!(matches!(
            guests.reconcile_instance(guest(1)).await,
            ReconcileOutcome::Gone
        ));
        invariants::check_at_rest(&harness).await;
        harness.only_foreign_requests_are_left();
    }
}

#[tokio::test]
async fn an_event_before_the_question_and_one_after_it_both_end_the_wait() {
    for early in [true, false] {
        let harness = FaultHarness::new().await;
        harness.start_binding(1, &[1]);
        let guests = harness.guests();
        guests.create(&request(1, &[1])).await.unwrap();
        let wait = tokio::spawn({
            let guests = guests.clone();
            async move { guests.reconcile_instance(guest(1)).await }
        });
        while harness.query_count() == 0 {
            tokio::task::yield_now().await;
        }
        if !early {
            tokio::time::sleep(Duration::from_millis(120)).await;
        }
        harness.bind(1, &[1]);
        let event = BindEvent {
            instance: guest(1),
            arq: arq(1),
            status: EventStatus::Completed,
        };
        assert!(guests.events().dispatch(event));
        let end = wait.await.unwrap();
        assert!(matches!(end, ReconcileOutcome::Settled), "{early}: {end:?}");
        invariants::check_at_rest(&harness).await;
    }
}

#[tokio::test]
async fn a_second_guest_on_a_held_device_is_refused_and_the_first_keeps_it() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let guests = harness.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    // A service that binds one handle twice, as Cyborg does after its database was edited.
    harness.bind_to(2, 2, 1);
    guests.create(&request(2, &[2])).await.unwrap();
    let ReconcileOutcome::Undone { reason } = guests.reconcile_instance(guest(2)).await else {
        panic!("undone");
    };
    assert!(
        reason.contains("device 0000:01:00.0 is in use by guest"),
        "{reason}"
    );
    assert_eq!(harness.devices_of_running_guest(1), ["0000:01:00.0"]);
}

#[tokio::test]
async fn a_device_keeps_its_request_bound_until_it_can_be_reset() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let guests = harness.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    harness.add_failure(SimulatedFailure::ResetHangs(1));
    guests.delete(guest(1)).await.unwrap();
    let ReconcileOutcome::Blocked { reason } = guests.reconcile_instance(guest(1)).await else {
        panic!("held");
    };
    assert!(
        reason.to_string().contains("the reset timed out"),
        "{reason}"
    );
    assert!(harness.is_bound(1), "no other guest may get the device");
    let record = guests.show(guest(1)).await.unwrap();
    let detail = &record.steps[&SpawnStep::Prepare].detail;
    assert!(detail.contains("the reset timed out"), "{detail}");
    harness.clear_failures();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    invariants::check_at_rest(&harness).await;
}

#[tokio::test]
async fn an_unreadable_guest_may_use_any_device_but_does_not_block_guests_without_devices() {
    let harness = FaultHarness::new().await;
    let guests = harness.guests();
    for number in [1, 2] {
        harness.bind(number, &[number]);
        guests.create(&request(number, &[number])).await.unwrap();
        if number == 2 {
            harness.unreadable_guest(9, true);
            let ReconcileOutcome::Undone { reason } = guests.reconcile_instance(guest(2)).await
            else {
                panic!("undone");
            };
            assert!(reason.contains("any device"), "{reason}");
        } else {
            let end = guests.reconcile_instance(guest(1)).await;
            assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
        }
    }
    guests.create(&request(3, &[])).await.unwrap();
    let end = guests.reconcile_instance(guest(3)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    // The device is not considered free afterwards either.
    guests.delete(guest(1)).await.unwrap();
    let ReconcileOutcome::Blocked { reason } = guests.reconcile_instance(guest(1)).await else {
        panic!("held");
    };
    assert!(reason.to_string().contains("any device"), "{reason}");
    harness.unreadable_guest(9, false);
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
}

#[tokio::test]
async fn a_guest_does_not_wait_forever_for_a_reset_that_does_not_come_back() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let device = "0000:01:00.0";
    harness
        .journal()
        .devices()
        .begin_reset(device)
        .await
        .unwrap();
    let guests = harness.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    let reconcile = guests.reconcile_instance(guest(1));
    tokio::pin!(reconcile);
    let waits = async {
        while !guests
            .show(guest(1))
            .await
            .is_ok_and(|record| record.steps.contains_key(&SpawnStep::Bind))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        end = &mut reconcile => panic!("{end:?}"),
        () = waits => {}
    }
    tokio::time::pause();
    tokio::time::advance(MAX_RESET_WAIT).await;
    tokio::time::resume();
    let ReconcileOutcome::Undone { reason } = reconcile.await else {
        panic!("undone");
    };
    assert!(reason.contains(device), "{reason}");
    assert!(reason.contains("it is being reset"), "{reason}");
}

#[tokio::test]
async fn a_guest_with_a_failed_reset_is_removed_and_its_device_is_quarantined_until_released() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let guests = harness.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    harness.add_failure(SimulatedFailure::ResetFails(1));
    guests.delete(guest(1)).await.unwrap();
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    harness.only_foreign_requests_are_left();
    let register = harness.journal().devices();
    let known = register.read().await.unwrap();
    let quarantine = &known.quarantines["0000:01:00.0"];
    assert!(quarantine.reason.contains("all ones"), "{quarantine:?}");
    let none = register
        .take_reset_at_deletion("0000:01:00.0", 7)
        .await
        .unwrap();
    assert!(!none, "it was not cleaned");
    // If the service binds it for the next instance anyway, that spawn is refused with the reason.
    harness.clear_failures();
    harness.bind_to(2, 2, 1);
    guests.create(&request(2, &[2])).await.unwrap();
    let ReconcileOutcome::Undone { reason } = guests.reconcile_instance(guest(2)).await else {
        panic!("undone");
    };
    assert!(reason.contains("in quarantine"), "{reason}");
    register.end_quarantine("0000:01:00.0", None).await.unwrap();
    assert!(register.read().await.unwrap().quarantines.is_empty());
}

#[tokio::test]
async fn a_kill_between_a_failed_reset_and_the_guests_end_forgets_no_quarantine() {
    for after in [false, true] {
        for at in 1.. {
            let harness = FaultHarness::new().await;
            harness.bind(1, &[1]);
            let guests = harness.guests();
            guests.create(&request(1, &[1])).await.unwrap();
            guests.reconcile_instance(guest(1)).await;
            harness.add_failure(SimulatedFailure::ResetFails(1));
            harness.kill_at(Some(fault_harness::FaultPoint { at, after }));
            let guests = harness.guests();
            let killed = tokio::select! {
                biased;
                () = harness.wait_for_kill() => true,
                () = async {
                    guests.delete(guest(1)).await.unwrap();
                    guests.reconcile_instance(guest(1)).await;
                } => false,
            };
            harness.kill_agent();
            let guests = harness.guests();
            let _ = guests.delete(guest(1)).await;
            let end = guests.reconcile_instance(guest(1)).await;
            assert!(
                matches!(end, ReconcileOutcome::Gone),
                "{at} {after}: {end:?}"
            );
            let known = harness.journal().devices().read().await.unwrap();
            assert_eq!(known.quarantines.len(), 1, "{at} {after}");
            if !killed {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_verified_reset_counts_once_and_only_until_the_device_is_used_again() {
    let harness = FaultHarness::new().await;
    let register = harness.journal().devices();
    let device = "0000:01:00.0";
    for (claimed_again, counts) in [(false, true), (true, false)] {
        harness.bind(1, &[1]);
        let guests = harness.guests();
        guests.create(&request(1, &[1])).await.unwrap();
        guests.reconcile_instance(guest(1)).await;
        guests.delete(guest(1)).await.unwrap();
        assert!(matches!(
            guests.reconcile_instance(guest(1)).await,
            ReconcileOutcome::Gone
        ));
        if claimed_again {
            harness.bind_to(2, 2, 1);
            guests.create(&request(2, &[2])).await.unwrap();
            let end = guests.reconcile_instance(guest(2)).await;
            assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
        }
        assert_eq!(
            register.take_reset_at_deletion(device, 3).await.unwrap(),
            counts
        );
        assert!(
            !register.take_reset_at_deletion(device, 4).await.unwrap(),
            "once"
        );
        let known = register.read().await.unwrap();
        assert_eq!(known.release_count_at_reset.get(device), Some(&3));
    }
}

#[tokio::test]
async fn another_guest_of_the_same_uuid_on_the_hypervisor_is_left_alone() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    harness.foreign_guest(1, None);
    let guests = harness.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    let ReconcileOutcome::Undone { reason } = guests.reconcile_instance(guest(1)).await else {
        panic!("undone");
    };
    assert!(reason.contains("a different one"), "{reason}");
    assert!(
        harness.exists_on_hypervisor(1),
        "it was not ours to destroy"
    );
}

#[tokio::test]
async fn a_guest_deleted_while_it_waits_is_gone_at_once() {
    let harness = FaultHarness::new().await;
    harness.start_binding(1, &[1]);
    let guests = harness.guests_waiting(Duration::from_secs(600));
    guests.create(&request(1, &[1])).await.unwrap();
    while harness.query_count() == 0 {
        tokio::task::yield_now().await;
    }
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.create(&request(1, &[1])).await,
        Err(GuestsError::BeingDeleted { .. })
    ));
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    invariants::check_at_rest(&harness).await;
    harness.only_foreign_requests_are_left();
}

#[tokio::test]
async fn requests_that_are_now_bound_elsewhere_survive_the_delete_here() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    harness.add_failure(SimulatedFailure::StartFails);
    let guests = harness.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Undone { .. }
    ));
    // The conductor chose the next host.
    harness.add_failure(SimulatedFailure::Bound(1, "compute2", 1));
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    assert!(
        harness.is_bound(1),
        "the guest on the other host uses the device"
    );
}

#[tokio::test]
async fn the_same_request_twice_is_one_guest_and_another_with_its_uuid_is_refused() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let guests = harness.guests();
    assert_eq!(
        guests.create(&request(1, &[1])).await.unwrap(),
        AcceptOutcome::New
    );
    assert_eq!(
        guests.create(&request(1, &[1])).await.unwrap(),
        AcceptOutcome::Same
    );
    let other = guests.create(&request(1, &[2])).await;
    assert!(matches!(other, Err(GuestsError::DifferentRequest { .. })));
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let missing = guests.delete(guest(5)).await;
    assert!(matches!(missing, Err(GuestsError::NotFound { .. })));
}
