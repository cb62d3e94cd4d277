//! Guests in one process, with a fake hypervisor, fake devices and a fake accelerator service behind the real client: every
//! journey, killed at every crossing, and again at every crossing of its recovery.

mod judge;
mod kept;
mod life;
pub(super) mod life_changes;
mod once;

mod sweep;

use std::time::Duration;

use berth_agent_journal::samples::{arq, guest, request};
use berth_agent_journal::{AcceptOutcome, SpawnStep};
use berth_wire::compute::EventStatus;

use crate::spawn::LONGEST_RESET;
use crate::stage::{Mishap, Stage};
use crate::*;

#[tokio::test]
async fn a_guest_runs_with_exactly_the_devices_that_are_bound_for_it() {
    let stage = Stage::new().await;
    stage.bind(1, &[1, 2]);
    let guests = stage.guests();
    guests.create(&request(1, &[1, 2])).await.unwrap();
    let end = guests.journey(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(stage.running(1), ["0000:01:00.0", "0000:02:00.0"]);
    judge::at_rest(&stage).await;
}

#[tokio::test]
async fn each_mishap_undoes_the_guest_and_leaves_its_requests_unbound_and_there() {
    for (mishap, sentence) in [
        (Mishap::BindFailed(2), "could not be bound"),
        (Mishap::Bound(2, "compute2", 1), "bound on host compute2"),
        (Mishap::Bound(2, "compute1", 9), "bound for guest"),
        (Mishap::TestPci(2), "behind which there is no device"),
        (Mishap::Missing(2), "does not exist"),
        (Mishap::Extra(3), "was asked for without it"),
        (Mishap::DeviceSick(2), "cannot be given to a guest"),
        (Mishap::PrepareFails(2), "no such function"),
        (Mishap::DefineFails, "refused virDomainDefineXML"),
        (Mishap::StartFails, "refused virDomainCreate"),
        (Mishap::HeldByForeigner(2), "is guest"),
        (Mishap::NeverBound(2), "arq_binding_timeout"),
        (Mishap::ServiceAway, "has not answered"),
    ] {
        let stage = Stage::new().await;
        stage.bind(1, &[1, 2]);
        stage.comes(mishap);
        let guests = stage.guests();
        guests.create(&request(1, &[1, 2])).await.unwrap();
        let end = guests.journey(guest(1)).await;
        let reason = match end {
            ReconcileOutcome::Undone { reason } => reason,
            // Its requests cannot be given back while the service is away.
            ReconcileOutcome::Held { .. } if mishap == Mishap::ServiceAway => {
                stage.heals();
                let ReconcileOutcome::Undone { reason } = guests.journey(guest(1)).await else {
                    panic!("{mishap:?}: undone once the service is back");
                };
                reason
            }
            end => panic!("{mishap:?}: {end:?}"),
        };
        assert!(reason.contains(sentence), "{mishap:?}: {reason}");
        assert!(stage.running(1).is_empty(), "{mishap:?}");
        judge::at_rest(&stage).await;
        let record = guests.show(guest(1)).await.unwrap();
        assert_eq!(record.open(), None, "{mishap:?}");
        // Deleted, it takes its own requests along, and no other's.
        guests.delete(guest(1)).await.unwrap();
        assert!(matches!(
            guests.journey(guest(1)).await,
            ReconcileOutcome::Gone
        ));
        judge::at_rest(&stage).await;
        stage.only_foreign_requests_are_left();
    }
}

#[tokio::test]
async fn an_event_before_the_question_and_one_after_it_both_end_the_wait() {
    for early in [true, false] {
        let stage = Stage::new().await;
        stage.start_binding(1, &[1]);
        let guests = stage.guests();
        guests.create(&request(1, &[1])).await.unwrap();
        let wait = tokio::spawn({
            let guests = guests.clone();
            async move { guests.journey(guest(1)).await }
        });
        while stage.questions() == 0 {
            tokio::task::yield_now().await;
        }
        if !early {
            tokio::time::sleep(Duration::from_millis(120)).await;
        }
        stage.bind(1, &[1]);
        let event = BindEvent {
            instance: guest(1),
            arq: arq(1),
            status: EventStatus::Completed,
        };
        assert!(guests.events().tell(event));
        let end = wait.await.unwrap();
        assert!(matches!(end, ReconcileOutcome::Settled), "{early}: {end:?}");
        judge::at_rest(&stage).await;
    }
}

#[tokio::test]
async fn a_second_guest_on_a_held_device_is_refused_and_the_first_keeps_it() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    // A service that gives one handle twice, as the real one does after its database was edited.
    stage.bind_to(2, 2, 1);
    guests.create(&request(2, &[2])).await.unwrap();
    let ReconcileOutcome::Undone { reason } = guests.journey(guest(2)).await else {
        panic!("undone");
    };
    assert!(reason.contains("device 0000:01:00.0 is guest"), "{reason}");
    assert_eq!(stage.running(1), ["0000:01:00.0"]);
}

#[tokio::test]
async fn a_device_that_cannot_be_reset_now_keeps_its_request_bound_until_it_can() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    stage.comes(Mishap::ResetHangs(1));
    guests.delete(guest(1)).await.unwrap();
    let ReconcileOutcome::Held { reason } = guests.journey(guest(1)).await else {
        panic!("held");
    };
    assert!(reason.to_string().contains("did not come back"), "{reason}");
    assert!(stage.is_bound(1), "nobody else may get the device");
    let record = guests.show(guest(1)).await.unwrap();
    let detail = &record.steps[&SpawnStep::Prepare].detail;
    assert!(detail.contains("did not come back"), "{detail}");
    stage.heals();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    judge::at_rest(&stage).await;
}

#[tokio::test]
async fn a_guest_that_cannot_be_read_may_have_any_device_and_holds_up_nobody_without() {
    let stage = Stage::new().await;
    let guests = stage.guests();
    for number in [1, 2] {
        stage.bind(number, &[number]);
        guests.create(&request(number, &[number])).await.unwrap();
        if number == 2 {
            stage.unreadable_guest(9, true);
            let ReconcileOutcome::Undone { reason } = guests.journey(guest(2)).await else {
                panic!("undone");
            };
            assert!(reason.contains("any device"), "{reason}");
        } else {
            let end = guests.journey(guest(1)).await;
            assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
        }
    }
    guests.create(&request(3, &[])).await.unwrap();
    let end = guests.journey(guest(3)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    // Its device is not taken for free either.
    guests.delete(guest(1)).await.unwrap();
    let ReconcileOutcome::Held { reason } = guests.journey(guest(1)).await else {
        panic!("held");
    };
    assert!(reason.to_string().contains("any device"), "{reason}");
    stage.unreadable_guest(9, false);
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Gone
    ));
}

#[tokio::test]
async fn a_guest_does_not_wait_for_ever_for_a_reset_that_does_not_come_back() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    let device = "0000:01:00.0";
    stage
        .journal()
        .devices()
        .begin_cleaning(device)
        .await
        .unwrap();
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    let journey = guests.journey(guest(1));
    tokio::pin!(journey);
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
        end = &mut journey => panic!("{end:?}"),
        () = waits => {}
    }
    tokio::time::pause();
    tokio::time::advance(LONGEST_RESET).await;
    tokio::time::resume();
    let ReconcileOutcome::Undone { reason } = journey.await else {
        panic!("undone");
    };
    assert!(reason.contains(device), "{reason}");
    assert!(reason.contains("it is being reset"), "{reason}");
}

#[tokio::test]
async fn a_guest_whose_device_cannot_be_reset_ends_and_the_device_goes_to_nobody_until_it_is_released()
 {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    stage.comes(Mishap::ResetFails(1));
    guests.delete(guest(1)).await.unwrap();
    let end = guests.journey(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    stage.only_foreign_requests_are_left();
    let register = stage.journal().devices();
    let known = register.read().await.unwrap();
    let quarantine = &known.quarantines["0000:01:00.0"];
    assert!(quarantine.reason.contains("all ones"), "{quarantine:?}");
    let none = register.count_as_cleaned("0000:01:00.0", 7).await.unwrap();
    assert!(!none, "it was not cleaned");
    // Bound to the next one all the same, it is refused, with the reason.
    stage.heals();
    stage.bind_to(2, 2, 1);
    guests.create(&request(2, &[2])).await.unwrap();
    let ReconcileOutcome::Undone { reason } = guests.journey(guest(2)).await else {
        panic!("undone");
    };
    assert!(reason.contains("in quarantine"), "{reason}");
    register.release("0000:01:00.0", None).await.unwrap();
    assert!(register.read().await.unwrap().quarantines.is_empty());
}

#[tokio::test]
async fn a_kill_between_a_failed_reset_and_the_guests_end_forgets_no_quarantine() {
    for after in [false, true] {
        for at in 1.. {
            let stage = Stage::new().await;
            stage.bind(1, &[1]);
            let guests = stage.guests();
            guests.create(&request(1, &[1])).await.unwrap();
            guests.journey(guest(1)).await;
            stage.comes(Mishap::ResetFails(1));
            stage.kill_at(Some(stage::Kill { at, after }));
            let guests = stage.guests();
            let killed = tokio::select! {
                biased;
                () = stage.dies() => true,
                () = async {
                    guests.delete(guest(1)).await.unwrap();
                    guests.journey(guest(1)).await;
                } => false,
            };
            stage.kill_at(None);
            let guests = stage.guests();
            let _ = guests.delete(guest(1)).await;
            let end = guests.journey(guest(1)).await;
            assert!(
                matches!(end, ReconcileOutcome::Gone),
                "{at} {after}: {end:?}"
            );
            let known = stage.journal().devices().read().await.unwrap();
            assert_eq!(known.quarantines.len(), 1, "{at} {after}");
            if !killed {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_verified_reset_counts_once_and_only_until_somebody_has_the_device_again() {
    let stage = Stage::new().await;
    let register = stage.journal().devices();
    let device = "0000:01:00.0";
    for (claimed_again, counts) in [(false, true), (true, false)] {
        stage.bind(1, &[1]);
        let guests = stage.guests();
        guests.create(&request(1, &[1])).await.unwrap();
        guests.journey(guest(1)).await;
        guests.delete(guest(1)).await.unwrap();
        assert!(matches!(
            guests.journey(guest(1)).await,
            ReconcileOutcome::Gone
        ));
        if claimed_again {
            stage.bind_to(2, 2, 1);
            guests.create(&request(2, &[2])).await.unwrap();
            let end = guests.journey(guest(2)).await;
            assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
        }
        assert_eq!(register.count_as_cleaned(device, 3).await.unwrap(), counts);
        assert!(!register.count_as_cleaned(device, 4).await.unwrap(), "once");
        let known = register.read().await.unwrap();
        assert_eq!(known.cleaned.get(device), Some(&3));
    }
}

#[tokio::test]
async fn another_guest_of_the_same_uuid_on_the_hypervisor_is_left_alone() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    stage.foreign_guest(1, None);
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    let ReconcileOutcome::Undone { reason } = guests.journey(guest(1)).await else {
        panic!("undone");
    };
    assert!(reason.contains("another one"), "{reason}");
    assert!(stage.on_hypervisor(1), "it was not ours to destroy");
}

#[tokio::test]
async fn a_guest_deleted_while_it_waits_is_gone_at_once() {
    let stage = Stage::new().await;
    stage.start_binding(1, &[1]);
    let guests = stage.guests_waiting(Duration::from_secs(600));
    guests.create(&request(1, &[1])).await.unwrap();
    while stage.questions() == 0 {
        tokio::task::yield_now().await;
    }
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.create(&request(1, &[1])).await,
        Err(GuestsError::Ending { .. })
    ));
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    judge::at_rest(&stage).await;
    stage.only_foreign_requests_are_left();
}

#[tokio::test]
async fn requests_that_are_bound_elsewhere_by_now_survive_the_delete_here() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    stage.comes(Mishap::StartFails);
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Undone { .. }
    ));
    // The conductor took the next host.
    stage.comes(Mishap::Bound(1, "compute2", 1));
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    assert!(
        stage.is_bound(1),
        "the guest on the other host has its device"
    );
}

#[tokio::test]
async fn the_same_request_twice_is_one_guest_and_another_with_its_uuid_is_refused() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    assert_eq!(
        guests.create(&request(1, &[1])).await.unwrap(),
        AcceptOutcome::New
    );
    assert_eq!(
        guests.create(&request(1, &[1])).await.unwrap(),
        AcceptOutcome::Same
    );
    let other = guests.create(&request(1, &[2])).await;
    assert!(matches!(other, Err(GuestsError::Other { .. })));
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let missing = guests.delete(guest(5)).await;
    assert!(matches!(missing, Err(GuestsError::NotFound { .. })));
}
