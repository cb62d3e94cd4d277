//! A guest's life: stops and starts, boots of the host, and its own end.

use std::time::Duration;

use berth_agent_journal::samples::{bound, guest, request};
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{GuestState, PowerAction, Powered};

use crate::guests::Guests;
use crate::manager::GuestManager as _;
use crate::outcome::ReconcileOutcome;
use crate::power::PowerError;
use crate::reconcile::Reconciler;
use crate::stage::{Devices, Fault, Hypervisor, Kill, Mishap, Stage};
use crate::tests::judge;

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
        ReconcileOutcome::Settled
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
async fn a_guest_that_was_given_more_on_the_hypervisor_has_its_own_again_after_a_start_and_a_hard_reboot()
 {
    let (stage, guests) = running().await;
    let own = stage.memory_mib(1);
    for actions in [
        &[PowerAction::HardReboot][..],
        &[STOP, PowerAction::Start][..],
    ] {
        stage.give_memory(1, 64);
        for action in actions {
            assert_eq!(stage.memory_mib(1), own + 64, "{action:?}");
            assert_eq!(
                guests.power(guest(1), *action).await.unwrap(),
                Powered::Done
            );
        }
        assert_eq!(stage.memory_mib(1), own);
        assert_eq!(wanted(&guests).await, DesiredPower::Running);
        assert_eq!(stage.running(1).len(), 2);
        judge::always(&stage).await;
    }
    // For its next start: nobody sees that while it runs.
    stage.give_memory_next(1, 64);
    assert_eq!(stage.memory_mib(1), own);
    let hard = guests.power(guest(1), PowerAction::HardReboot).await;
    assert_eq!((hard.unwrap(), stage.memory_mib(1)), (Powered::Done, own));
    // A soft one restarts nothing of it.
    stage.give_memory(1, 64);
    let soft = guests.power(guest(1), PowerAction::SoftReboot).await;
    assert_eq!(soft.unwrap(), Powered::Done);
    assert_eq!(stage.memory_mib(1), own + 64);
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
async fn a_guest_that_a_hard_reboot_switched_off_and_could_not_start_is_brought_back_later() {
    let (stage, guests) = running().await;
    stage.comes(Mishap::StartFails);
    let rebooted = guests.power(guest(1), PowerAction::HardReboot).await;
    let error = rebooted.unwrap_err().to_string();
    assert!(error.contains("virDomainCreate"), "{error}");
    assert_eq!(wanted(&guests).await, DesiredPower::Running);
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Held { .. }), "{end:?}");
    stage.heals();
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(stage.running(1).len(), 2, "with its devices");
    let record = guests.show(guest(1)).await.unwrap();
    assert!(!record.life.ended, "it did not end itself");
}

#[tokio::test]
async fn a_guest_whose_requests_nobody_can_be_asked_to_end_stays_known_until_somebody_can() {
    let (stage, _) = running().await;
    stage.comes(Mishap::NoService);
    let guests = stage.guests();
    guests.delete(guest(1)).await.unwrap();
    match guests.journey(guest(1)).await {
        ReconcileOutcome::Held { reason } => {
            let reason = reason.to_string();
            assert!(reason.contains("[cyborg]"), "{reason}");
        }
        end => panic!("{end:?}"),
    }
    assert!(stage.is_bound(1) && stage.is_bound(2));
    stage.kill_at(None);
    stage.heals();
    let end = stage.guests().journey(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    stage.only_foreign_requests_are_left();
}

#[tokio::test]
async fn nothing_is_done_with_a_guest_that_is_unknown_or_on_its_way() {
    let (stage, guests) = running().await;
    let unknown = guests.power(guest(5), STOP).await;
    assert!(matches!(unknown, Err(PowerError::NotFound { .. })));
    stage.comes(Mishap::ResetHangs(1));
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Held { .. }
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
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(stage.running(1), ["0000:01:00.0", "0000:02:00.0"]);
    judge::at_rest(&stage).await;
    // And nothing more is done to it afterwards.
    let crossings = stage.history().len();
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled));
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
            matches!(end, ReconcileOutcome::Held { .. }),
            "{mishap:?}: {end:?}"
        );
        assert!(stage.is_bound(1) && stage.is_bound(2), "{mishap:?}");
        // The agent is killed while it is held, and the next one goes on.
        stage.kill_at(None);
        stage.heals();
        let end = stage.guests().journey(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{mishap:?}: {end:?}"
        );
        judge::at_rest(&stage).await;
    }
}

#[tokio::test]
async fn a_guest_that_was_undone_and_appears_all_the_same_is_taken_off_again() {
    let stage = Stage::new().await;
    stage.bind(1, &[1]);
    stage.comes(Mishap::StartFails);
    let (guests, request) = (stage.guests(), request(1, &[1]));
    guests.create(&request).await.unwrap();
    let end = guests.journey(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Undone { .. }), "{end:?}");
    while guests.inner.journeys.is_active(&guest(1)) {
        tokio::task::yield_now().await;
    }
    // It is defined, and does not start.
    stage.made_late(&bound(&[1]).attached_to(request.spec()).unwrap());
    stage.heals();
    assert!(stage.on_hypervisor(1));
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Undone { .. }), "{end:?}");
    assert!(!stage.on_hypervisor(1));
    assert!(!stage.is_bound(1));
    judge::at_rest(&stage).await;
}

#[tokio::test]
async fn a_guest_that_was_stopped_stays_off_after_a_boot_of_the_host() {
    let (stage, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    stage.reboot_host();
    let end = stage.guests().mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled));
    assert!(stage.running(1).is_empty());
}

#[tokio::test]
async fn a_guest_that_ended_itself_is_not_started_again() {
    let (stage, guests) = running().await;
    stage.guest_ends(1);
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert!(stage.running(1).is_empty());
    assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
}

/// What is asked of a running guest with devices, after what.
const POWER: [(Option<PowerAction>, PowerAction); 6] = [
    (None, STOP),
    (Some(STOP), PowerAction::Start),
    (None, PowerAction::Pause),
    (Some(PowerAction::Pause), PowerAction::Unpause),
    (None, PowerAction::HardReboot),
    (Some(PowerAction::Pause), STOP),
];

/// The guest as it is when everybody had his time; what is wanted of it is what it does, and nobody says that it ended itself.
async fn at_rest(stage: &Stage, what: &str) -> DesiredPower {
    let guests = stage.guests();
    // The start of the agent, and a comparison.
    for _ in 0..2 {
        let end = guests.journey(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{what}: {end:?}");
        let end = guests.mend(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{what}: {end:?}");
    }
    judge::at_rest(stage).await;
    let record = guests.show(guest(1)).await.unwrap();
    assert!(!record.life.ended, "{what}: it did not end itself");
    let state = stage.world().guests[&guest(1)].state;
    let does = match state {
        GuestState::Running => DesiredPower::Running,
        GuestState::Paused => DesiredPower::Paused,
        GuestState::ShutOff | GuestState::Crashed => DesiredPower::ShutOff,
    };
    assert_eq!(record.power, does, "{what}");
    does
}

fn after(action: PowerAction) -> DesiredPower {
    match action {
        PowerAction::Stop { .. } => DesiredPower::ShutOff,
        PowerAction::Pause => DesiredPower::Paused,
        _ => DesiredPower::Running,
    }
}

async fn after_the_first(first: Option<PowerAction>) -> Stage {
    let (stage, guests) = running().await;
    if let Some(first) = first {
        let _ = guests.power(guest(1), first).await.unwrap();
    }
    stage.kill_at(None);
    stage
}

/// Each crossing of an action, and either side of it.
async fn points(first: Option<PowerAction>, action: PowerAction) -> Vec<Kill> {
    let stage = after_the_first(first).await;
    let _ = stage.guests().power(guest(1), action).await.unwrap();
    let points = (1..=stage.count()).flat_map(|at| [false, true].map(|after| Kill { at, after }));
    points.collect()
}

#[tokio::test]
async fn a_kill_in_a_power_action_leaves_the_guest_as_it_was_or_as_was_asked_and_the_journal_knows_which()
 {
    for (first, action) in POWER {
        for kill in points(first, action).await {
            let stage = after_the_first(first).await;
            stage.kill_at(Some(kill));
            let guests = stage.guests();
            tokio::select! {
                biased;
                () = stage.dies() => {}
                done = guests.power(guest(1), action) => panic!("{action:?} comes to {kill:?}: {done:?}"),
            }
            judge::always(&stage).await;
            stage.kill_at(None);
            let what = format!("{action:?} after {first:?} at {kill:?}");
            let does = at_rest(&stage, &what).await;
            let before = first.map_or(DesiredPower::Running, after);
            assert!([before, after(action)].contains(&does), "{what}: {does:?}");
        }
    }
}

#[tokio::test]
async fn an_action_whose_answer_did_not_come_is_seen_to_and_a_guest_never_runs_unseen() {
    for (first, action) in POWER {
        for point in points(first, action).await {
            let stage = after_the_first(first).await;
            stage.fault_at(Some(point), Fault::Error);
            let what = format!("{action:?} after {first:?} at {point:?}");
            let acted = stage.guests().power(guest(1), action).await;
            let line = stage.history().pop().unwrap_or_default();
            stage.kill_at(None);
            let does = at_rest(&stage, &what).await;
            // It was written down, and the hypervisor was asked.
            if acted.is_ok() || line.contains("driver write power") {
                assert_eq!(does, after(action), "{what}");
            }
        }
    }
}

/// Somebody does this with the guest by hand.
fn is(stage: &Stage, state: GuestState) {
    stage.world().guests.get_mut(&guest(1)).unwrap().state = state;
}

#[tokio::test]
async fn a_guest_that_ends_by_itself_is_known_as_off_before_the_clock_says_so() {
    let (stage, guests) = running().await;
    let end = tokio_util::sync::CancellationToken::new();
    let keeping = tokio::spawn({
        let (guests, end) = (guests.clone(), end.clone());
        async move { guests.keep(Duration::from_hours(24), end).await }
    });
    stage.guest_ends(1);
    while wanted(&guests).await != DesiredPower::ShutOff {
        guests.stir();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn what_no_guest_uses_is_removed_by_the_clock_and_not_at_each_change() {
    let (stage, guests) = running().await;
    let reconciler = Reconciler::new(guests.clone(), None, None);
    let end = tokio_util::sync::CancellationToken::new();
    let keeping = tokio::spawn(reconciler.keep(Duration::from_hours(24), end.clone()));
    while stage.world().tidied == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stage.guest_ends(1);
    while wanted(&guests).await != DesiredPower::ShutOff {
        guests.stir();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stage.world().tidied, 1);
    reconciler.repair().await.unwrap();
    assert_eq!(stage.world().tidied, 2);
    end.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn a_guest_that_is_off_for_berth_and_was_started_by_hand_is_stopped() {
    let (stage, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    is(&stage, GuestState::Running);
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert!(stage.running(1).is_empty());
    assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
}

#[tokio::test]
async fn a_guest_that_should_run_and_was_paused_by_others_is_left_to_them() {
    let (stage, guests) = running().await;
    is(&stage, GuestState::Paused);
    let end = guests.mend(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(stage.world().guests[&guest(1)].state, GuestState::Paused);
    assert_eq!(wanted(&guests).await, DesiredPower::Running);
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
    use berth_agent_journal::GuestJournal as _;
    stage.journal().accept(&request(1, &[1])).await.unwrap();
}
