//! A guest's life: stops and starts, boots of the host, and its own end.

use std::time::Duration;

use berth_virt::guest_spec::DesiredPower;
use berth_virt::{PowerAction, Powered};

use super::judge;
use super::stage::{Devices, Hypervisor, Mishap, Stage};
use crate::guest::samples::{guest, request};
use crate::guest::{Guests, JourneyEnd, PowerError};

const STOP: PowerAction = PowerAction::Stop {
    grace: Duration::ZERO,
};

async fn running() -> (Stage, Guests<Hypervisor, Devices>) {
    let stage = Stage::new().await;
    stage.bind(1, &[1, 2]);
    let guests = stage.guests();
    guests.create(&request(1, &[1, 2])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        JourneyEnd::Settled
    ));
    (stage, guests)
}

async fn wanted(guests: &Guests<Hypervisor, Devices>) -> DesiredPower {
    guests.show(guest(1)).await.unwrap().power
}

#[tokio::test]
async fn a_guest_is_stopped_and_started_with_its_devices() {
    let (stage, guests) = running().await;
    for (action, wanted_then, runs) in [
        (STOP, DesiredPower::ShutOff, false),
        (PowerAction::Start, DesiredPower::Running, true),
        (PowerAction::Pause, DesiredPower::Paused, false),
        (PowerAction::Unpause, DesiredPower::Running, true),
        (PowerAction::HardReboot, DesiredPower::Running, true),
    ] {
        assert_eq!(guests.power(guest(1), action).await.unwrap(), Powered::Done);
        assert_eq!(wanted(&guests).await, wanted_then);
        assert_eq!(
            stage.running(1).len(),
            if runs { 2 } else { 0 },
            "{action:?}"
        );
        judge::always(&stage).await;
    }
}

#[tokio::test]
async fn a_guest_whose_devices_are_not_its_own_any_more_does_not_start() {
    for (mishap, sentence) in [
        (Mishap::Bound(2, "compute2", 1), "on host compute2"),
        (Mishap::BindFailed(2), "BindFailed"),
        (Mishap::NeverBound(2), "not bound"),
        (Mishap::ServiceAway, "connection reset"),
        (Mishap::DeviceSick(2), "link is down"),
        (Mishap::StartFails, "virDomainCreate"),
    ] {
        let (stage, guests) = running().await;
        let _ = guests.power(guest(1), STOP).await.unwrap();
        stage.comes(mishap);
        let error = guests
            .power(guest(1), PowerAction::Start)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(sentence), "{mishap:?}: {error}");
        assert!(stage.running(1).is_empty(), "{mishap:?}");
        assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
    }
    // One other device than before is not what the guest was made with, either.
    let (stage, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    stage.bind_to(1, 2, 9);
    let error = guests
        .power(guest(1), PowerAction::Start)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("0000:09:00.0"), "{error}");
}

#[tokio::test]
async fn nothing_is_done_with_a_guest_that_is_unknown_or_on_its_way() {
    let (stage, guests) = running().await;
    let unknown = guests.power(guest(5), STOP).await;
    assert!(matches!(unknown, Err(PowerError::NotFound { .. })));
    stage.comes(Mishap::ResetFails(1));
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        JourneyEnd::Held { .. }
    ));
    let going = guests.power(guest(1), PowerAction::Start).await;
    assert!(matches!(going, Err(PowerError::Busy { .. })), "{going:?}");
}

#[tokio::test]
async fn after_a_boot_of_the_host_guests_come_back_with_their_devices() {
    let (stage, _) = running().await;
    stage.reboot_host();
    let guests = stage.guests();
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, JourneyEnd::Settled), "{end:?}");
    assert_eq!(stage.running(1), ["0000:01:00.0", "0000:02:00.0"]);
    judge::at_rest(&stage).await;
    // And nothing more is done to it afterwards.
    let crossings = stage.history().len();
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, JourneyEnd::Settled));
    let after = stage.history().split_off(crossings);
    assert!(
        after.iter().all(|line| line.contains(" read ")),
        "{after:?}"
    );
}

#[tokio::test]
async fn a_guest_that_cannot_be_brought_back_is_held_and_not_undone() {
    for mishap in [
        Mishap::ServiceAway,
        Mishap::DeviceSick(2),
        Mishap::StartFails,
    ] {
        let (stage, _) = running().await;
        stage.reboot_host();
        stage.comes(mishap);
        let guests = stage.guests();
        let end = guests.mend(guest(1)).await;
        assert!(
            matches!(end, JourneyEnd::Held { .. }),
            "{mishap:?}: {end:?}"
        );
        assert!(stage.is_bound(1) && stage.is_bound(2), "{mishap:?}");
        // The agent is killed while it is held, and the next one goes on.
        stage.kill_at(None);
        stage.heals();
        let end = stage.guests().journey(guest(1)).await;
        assert!(matches!(end, JourneyEnd::Settled), "{mishap:?}: {end:?}");
        judge::at_rest(&stage).await;
    }
}

#[tokio::test]
async fn a_guest_that_was_stopped_stays_off_after_a_boot_of_the_host() {
    let (stage, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    stage.reboot_host();
    let end = stage.guests().mend(guest(1)).await;
    assert!(matches!(end, JourneyEnd::Settled));
    assert!(stage.running(1).is_empty());
}

#[tokio::test]
async fn a_guest_that_ended_itself_is_not_started_again() {
    let (stage, guests) = running().await;
    stage.guest_ends(1);
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, JourneyEnd::Settled), "{end:?}");
    assert!(stage.running(1).is_empty());
    assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
}

#[tokio::test]
async fn the_keeper_finishes_what_an_earlier_agent_began_and_ends_when_told() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    let first = stage.guests();
    // Accepted, and killed before anything was done.
    accepted_before(&stage).await;
    drop(first);
    stage.kill_at(None);
    let shutdown = tokio_util::sync::CancellationToken::new();
    let guests = stage.guests();
    let keeper = tokio::spawn({
        let (guests, shutdown) = (guests.clone(), shutdown.clone());
        async move { guests.keep(Duration::from_secs(3600), shutdown).await }
    });
    while guests.show(guest(1)).await.unwrap().open().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    keeper.await.unwrap();
    judge::at_rest(&stage).await;
}

async fn accepted_before(stage: &Stage) {
    use crate::guest::GuestJournal as _;
    stage.journal().accept(&request(1, &[1])).await.unwrap();
}
