//! Tests of power actions, host reboots and guests that shut themselves down.

use std::time::Duration;

use berth_agent_journal::Goal;
use berth_agent_journal::samples::{bound, guest, request};
use berth_virt::guest_spec::{DesiredPower, MachineOptions};
use berth_virt::{GuestPowerOutcome, HostDeviceId, PowerAction, PowerState};

use crate::fault_harness::{
    FaultHarness, FaultPoint, InjectedFault, SimulatedFailure, SimulatedHypervisor,
    SimulatedResources,
};
use crate::guests::Guests;
use crate::manager::GuestManager as _;
use crate::outcome::ReconcileOutcome;
use crate::power::PowerError;
use crate::reconcile::Reconciler;
use crate::tests::invariants;

const STOP: PowerAction = PowerAction::Stop {
    grace: Duration::ZERO,
};

async fn running() -> (
    FaultHarness,
    Guests<SimulatedHypervisor, SimulatedResources>,
) {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    let guests = harness.guests();
    guests.create(&request(1, &[1, 2])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    (harness, guests)
}

async fn wanted(guests: &Guests<SimulatedHypervisor, SimulatedResources>) -> DesiredPower {
    guests.show(guest(1)).await.unwrap().power
}

#[tokio::test]
async fn a_guest_is_stopped_and_started_with_its_devices() {
    let (harness, guests) = running().await;
    for (action, wanted_then, runs) in [
        (STOP, DesiredPower::ShutOff, false),
        (PowerAction::Start, DesiredPower::Running, true),
        (PowerAction::Pause, DesiredPower::Paused, false),
        (PowerAction::Unpause, DesiredPower::Running, true),
        (PowerAction::HardReboot, DesiredPower::Running, true),
    ] {
        assert_eq!(
            guests.power(guest(1), action).await.unwrap(),
            GuestPowerOutcome::Done
        );
        assert_eq!(wanted(&guests).await, wanted_then);
        assert_eq!(
            harness.devices_of_running_guest(1).len(),
            if runs { 2 } else { 0 },
            "{action:?}"
        );
        invariants::check_always(&harness).await;
    }
}

#[tokio::test]
async fn changes_on_the_hypervisor_are_reverted_by_a_start_and_a_hard_reboot() {
    let (harness, guests) = running().await;
    let own = harness.memory_mib(1);
    for actions in [
        &[PowerAction::HardReboot][..],
        &[STOP, PowerAction::Start][..],
    ] {
        harness.change_memory(1, 64);
        for action in actions {
            assert_eq!(harness.memory_mib(1), own + 64, "{action:?}");
            assert_eq!(
                guests.power(guest(1), *action).await.unwrap(),
                GuestPowerOutcome::Done
            );
        }
        assert_eq!(harness.memory_mib(1), own);
        assert_eq!(wanted(&guests).await, DesiredPower::Running);
        assert_eq!(harness.devices_of_running_guest(1).len(), 2);
        invariants::check_always(&harness).await;
    }
    // A change for the next start is not visible while the guest runs.
    harness.change_memory_at_next_start(1, 64);
    assert_eq!(harness.memory_mib(1), own);
    let hard = guests.power(guest(1), PowerAction::HardReboot).await;
    assert_eq!(
        (hard.unwrap(), harness.memory_mib(1)),
        (GuestPowerOutcome::Done, own)
    );
    // A soft reboot changes nothing of it.
    harness.change_memory(1, 64);
    let soft = guests.power(guest(1), PowerAction::SoftReboot).await;
    assert_eq!(soft.unwrap(), GuestPowerOutcome::Done);
    assert_eq!(harness.memory_mib(1), own + 64);
}

#[tokio::test]
async fn a_guest_whose_devices_are_no_longer_bound_to_it_does_not_start() {
    for (failure, sentence) in [
        (
            SimulatedFailure::Bound(2, "compute2", 1),
            "on host compute2",
        ),
        (SimulatedFailure::BindFailed(2), "BindFailed"),
        (SimulatedFailure::NeverBound(2), "to be bound"),
        (SimulatedFailure::ServiceAway, "connection reset"),
        (SimulatedFailure::DeviceUnhealthy(2), "link is down"),
        (SimulatedFailure::StartFails, "virDomainCreate"),
    ] {
        let (harness, guests) = running().await;
        let _ = guests.power(guest(1), STOP).await.unwrap();
        harness.add_failure(failure);
        let error = guests
            .power(guest(1), PowerAction::Start)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(sentence), "{failure:?}: {error}");
        assert!(
            harness.devices_of_running_guest(1).is_empty(),
            "{failure:?}"
        );
        assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
    }
    // A guest with another device is not the requested one either.
    let (harness, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    harness.bind_to(1, 2, 9);
    let error = guests
        .power(guest(1), PowerAction::Start)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("0000:09:00.0"), "{error}");
}

#[tokio::test]
async fn a_guest_that_a_hard_reboot_switched_off_and_could_not_start_is_brought_back_later() {
    let (harness, guests) = running().await;
    harness.add_failure(SimulatedFailure::StartFails);
    let rebooted = guests.power(guest(1), PowerAction::HardReboot).await;
    let error = rebooted.unwrap_err().to_string();
    assert!(error.contains("virDomainCreate"), "{error}");
    assert_eq!(wanted(&guests).await, DesiredPower::Running);
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Blocked { .. }), "{end:?}");
    harness.clear_failures();
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(
        harness.devices_of_running_guest(1).len(),
        2,
        "with its devices"
    );
    let record = guests.show(guest(1)).await.unwrap();
    assert!(!record.overrides.ended, "it did not shut itself down");
}

#[tokio::test]
async fn a_guest_whose_requests_cannot_be_released_stays_in_the_journal_until_they_can() {
    let (harness, _) = running().await;
    harness.add_failure(SimulatedFailure::NoService);
    let guests = harness.guests();
    guests.delete(guest(1)).await.unwrap();
    match guests.reconcile_instance(guest(1)).await {
        ReconcileOutcome::Blocked { reason } => {
            let reason = reason.to_string();
            assert!(reason.contains("[cyborg]"), "{reason}");
        }
        end => panic!("{end:?}"),
    }
    assert!(harness.is_bound(1) && harness.is_bound(2));
    harness.kill_agent();
    harness.clear_failures();
    let end = harness.guests().reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    harness.only_foreign_requests_are_left();
}

#[tokio::test]
async fn nothing_is_done_with_a_guest_that_is_unknown_or_on_its_way() {
    let (harness, guests) = running().await;
    let unknown = guests.power(guest(5), STOP).await;
    assert!(matches!(unknown, Err(PowerError::NotFound { .. })));
    harness.add_failure(SimulatedFailure::ResetHangs(1));
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Blocked { .. }
    ));
    let going = guests.power(guest(1), PowerAction::Start).await;
    assert!(matches!(going, Err(PowerError::Busy { .. })), "{going:?}");
}

#[tokio::test]
async fn after_a_boot_of_the_host_guests_come_back_with_their_devices() {
    let (harness, _) = running().await;
    harness.reboot_host();
    let guests = harness.guests();
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(
        harness.devices_of_running_guest(1),
        ["0000:01:00.0", "0000:02:00.0"]
    );
    invariants::check_at_rest(&harness).await;
    // Afterwards nothing more is done.
    let crossings = harness.history().len();
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled));
    let after = harness.history().split_off(crossings);
    assert!(
        after.iter().all(|line| line.contains(" read ")),
        "{after:?}"
    );
}

#[tokio::test]
async fn a_guest_that_cannot_be_brought_back_is_held_and_not_undone() {
    for failure in [
        SimulatedFailure::ServiceAway,
        SimulatedFailure::DeviceUnhealthy(2),
        SimulatedFailure::StartFails,
    ] {
        let (harness, _) = running().await;
        harness.reboot_host();
        harness.add_failure(failure);
        let guests = harness.guests();
        let end = guests.sync_one(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Blocked { .. }),
            "{failure:?}: {end:?}"
        );
        assert!(harness.is_bound(1) && harness.is_bound(2), "{failure:?}");
        // The agent is killed while the instance is blocked, and the next agent continues.
        harness.kill_agent();
        harness.clear_failures();
        let end = harness.guests().reconcile_instance(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{failure:?}: {end:?}"
        );
        invariants::check_at_rest(&harness).await;
    }
}

#[tokio::test]
async fn a_guest_that_was_undone_and_appears_all_the_same_is_taken_off_again() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    harness.add_failure(SimulatedFailure::StartFails);
    let (guests, request) = (harness.guests(), request(1, &[1]));
    guests.create(&request).await.unwrap();
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Undone { .. }), "{end:?}");
    while guests.inner.tasks.is_active(&guest(1)) {
        tokio::task::yield_now().await;
    }
    // It is defined but does not start.
    harness.complete_late_spawn(&bound(&[1]).attached_to(request.spec()).unwrap());
    harness.clear_failures();
    assert!(harness.exists_on_hypervisor(1));
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Undone { .. }), "{end:?}");
    assert!(!harness.exists_on_hypervisor(1));
    assert!(!harness.is_bound(1));
    invariants::check_at_rest(&harness).await;
}

#[tokio::test]
async fn a_guest_that_was_stopped_stays_off_after_a_boot_of_the_host() {
    let (harness, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    harness.reboot_host();
    let end = harness.guests().sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled));
    assert!(harness.devices_of_running_guest(1).is_empty());
}

#[tokio::test]
async fn a_host_that_numbers_its_buses_otherwise_does_not_move_the_devices_of_a_guest() {
    let harness = FaultHarness::new().await;
    harness.world().switch_bus = 0x20;
    harness.bind(1, &[1, 2]);
    let machine = MachineOptions {
        host_pci_topology: true,
        ..MachineOptions::default()
    };
    let request = request(1, &[1, 2]).with_machine(machine);
    let guests = harness.guests();
    guests.create(&request).await.unwrap();
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    let devices = || harness.world().documents[&guest(1)].devices.clone();
    let before = devices();
    for attached in before.as_slice() {
        let place = before.places().get(HostDeviceId::of(attached.device));
        let switch = place.and_then(|place| place.switch);
        assert_eq!(switch, Some("0000:20:00.0".parse().unwrap()));
    }
    // The hypervisor forgets the guest, too.
    harness.reboot_host();
    {
        let mut world = harness.world();
        world.switch_bus = 0x40;
        world.documents.clear();
        world.guests.clear();
    }
    let guests = harness.guests();
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(devices(), before);
    for action in [STOP, PowerAction::Start] {
        let done = guests.power(guest(1), action).await.unwrap();
        assert_eq!(done, GuestPowerOutcome::Done);
    }
    invariants::check_at_rest(&harness).await;
}

#[tokio::test]
async fn a_guest_with_more_devices_than_a_bus_has_slots_gets_none_of_them() {
    let harness = FaultHarness::new().await;
    let numbers: Vec<u32> = (1..=33).collect();
    harness.bind(1, &numbers);
    let machine = MachineOptions {
        host_pci_topology: true,
        ..MachineOptions::default()
    };
    let guests = harness.guests();
    let request = request(1, &numbers).with_machine(machine);
    guests.create(&request).await.unwrap();
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(!matches!(end, ReconcileOutcome::Settled), "{end:?}");
    let record = guests.show(guest(1)).await.unwrap();
    let Goal::Undo { reason, .. } = &record.goal else {
        panic!("{record:?}");
    };
    assert!(reason.contains("a PCI bus has room for 32"), "{reason}");
    assert!(!harness.exists_on_hypervisor(1));
}

#[tokio::test]
async fn a_guest_that_ended_itself_is_not_started_again() {
    let (harness, guests) = running().await;
    harness.shut_guest_down(1);
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert!(harness.devices_of_running_guest(1).is_empty());
    assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
}

/// Power actions on a running guest with devices, and the action before.
const POWER: [(Option<PowerAction>, PowerAction); 6] = [
    (None, STOP),
    (Some(STOP), PowerAction::Start),
    (None, PowerAction::Pause),
    (Some(PowerAction::Pause), PowerAction::Unpause),
    (None, PowerAction::HardReboot),
    (Some(PowerAction::Pause), STOP),
];

/// Lets all operations finish. The desired state must then be the actual one, and the guest must not count as shut down
/// by itself.
async fn at_rest(harness: &FaultHarness, what: &str) -> DesiredPower {
    let guests = harness.guests();
    // The start of the agent, and a sync.
    for _ in 0..2 {
        let end = guests.reconcile_instance(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{what}: {end:?}");
        let end = guests.sync_one(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{what}: {end:?}");
    }
    invariants::check_at_rest(harness).await;
    let record = guests.show(guest(1)).await.unwrap();
    assert!(
        !record.overrides.ended,
        "{what}: it did not shut itself down"
    );
    let state = harness.world().guests[&guest(1)].state;
    let does = match state {
        PowerState::Running => DesiredPower::Running,
        PowerState::Paused => DesiredPower::Paused,
        PowerState::ShutOff | PowerState::Crashed => DesiredPower::ShutOff,
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

async fn after_the_first(first: Option<PowerAction>) -> FaultHarness {
    let (harness, guests) = running().await;
    if let Some(first) = first {
        let _ = guests.power(guest(1), first).await.unwrap();
    }
    harness.kill_agent();
    harness
}

/// Both sides of each call of an action.
async fn points(first: Option<PowerAction>, action: PowerAction) -> Vec<FaultPoint> {
    let harness = after_the_first(first).await;
    let _ = harness.guests().power(guest(1), action).await.unwrap();
    let points =
        (1..=harness.count()).flat_map(|at| [false, true].map(|after| FaultPoint { at, after }));
    points.collect()
}

#[tokio::test]
async fn a_kill_in_a_power_action_leaves_the_old_or_the_new_state_and_the_journal_agrees() {
    for (first, action) in POWER {
        for kill in points(first, action).await {
            let harness = after_the_first(first).await;
            harness.kill_at(Some(kill));
            let guests = harness.guests();
            tokio::select! {
                biased;
                () = harness.wait_for_kill() => {}
                done = guests.power(guest(1), action) => panic!("{action:?} finished before {kill:?}: {done:?}"),
            }
            invariants::check_always(&harness).await;
            harness.kill_agent();
            let what = format!("{action:?} after {first:?} at {kill:?}");
            let does = at_rest(&harness, &what).await;
            let before = first.map_or(DesiredPower::Running, after);
            assert!([before, after(action)].contains(&does), "{what}: {does:?}");
        }
    }
}

#[tokio::test]
async fn an_action_without_an_answer_is_completed_and_a_guest_never_runs_unnoticed() {
    for (first, action) in POWER {
        for point in points(first, action).await {
            let harness = after_the_first(first).await;
            harness.fault_at(Some(point), InjectedFault::Error);
            let what = format!("{action:?} after {first:?} at {point:?}");
            let acted = harness.guests().power(guest(1), action).await;
            let line = harness.history().pop().unwrap_or_default();
            harness.kill_agent();
            let does = at_rest(&harness, &what).await;
            // The action was journaled and sent to the hypervisor.
            if acted.is_ok() || line.contains("driver write power") {
                assert_eq!(does, after(action), "{what}");
            }
        }
    }
}

/// Someone changes the guest's state by hand.
fn is(harness: &FaultHarness, state: PowerState) {
    harness.world().guests.get_mut(&guest(1)).unwrap().state = state;
}

#[tokio::test]
async fn a_guest_that_shuts_itself_down_is_detected_before_the_next_periodic_sync() {
    let (harness, guests) = running().await;
    let end = tokio_util::sync::CancellationToken::new();
    let keeping = tokio::spawn({
        let (guests, end) = (guests.clone(), end.clone());
        async move { guests.run(Duration::from_hours(24), end).await }
    });
    harness.shut_guest_down(1);
    while wanted(&guests).await != DesiredPower::ShutOff {
        guests.notify_changed();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn what_no_guest_uses_is_removed_by_the_clock_and_not_at_each_change() {
    let (harness, guests) = running().await;
    let reconciler = Reconciler::new(guests.clone(), None, None);
    let end = tokio_util::sync::CancellationToken::new();
    let keeping = tokio::spawn(reconciler.run(Duration::from_hours(24), end.clone()));
    while harness.world().removals_of_unused_files == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    harness.shut_guest_down(1);
    while wanted(&guests).await != DesiredPower::ShutOff {
        guests.notify_changed();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(harness.world().removals_of_unused_files, 1);
    reconciler.repair().await.unwrap();
    assert_eq!(harness.world().removals_of_unused_files, 2);
    end.cancel();
    keeping.await.unwrap();
}

#[tokio::test]
async fn a_guest_that_is_off_for_berth_and_was_started_by_hand_is_stopped() {
    let (harness, guests) = running().await;
    let _ = guests.power(guest(1), STOP).await.unwrap();
    is(&harness, PowerState::Running);
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert!(harness.devices_of_running_guest(1).is_empty());
    assert_eq!(wanted(&guests).await, DesiredPower::ShutOff);
}

#[tokio::test]
async fn a_guest_that_should_run_and_was_paused_by_others_is_left_to_them() {
    let (harness, guests) = running().await;
    is(&harness, PowerState::Paused);
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(harness.world().guests[&guest(1)].state, PowerState::Paused);
    assert_eq!(wanted(&guests).await, DesiredPower::Running);
}

#[tokio::test]
async fn the_sync_loop_finishes_work_of_an_earlier_agent_and_stops_on_shutdown() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let first = harness.guests();
    // Accepted, and killed before any step.
    accepted_before(&harness).await;
    drop(first);
    harness.kill_agent();
    let shutdown = tokio_util::sync::CancellationToken::new();
    let guests = harness.guests();
    let keeper = tokio::spawn({
        let (guests, shutdown) = (guests.clone(), shutdown.clone());
        async move { guests.run(Duration::from_secs(3600), shutdown).await }
    });
    while guests.show(guest(1)).await.unwrap().open().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    keeper.await.unwrap();
    invariants::check_at_rest(&harness).await;
}

async fn accepted_before(harness: &FaultHarness) {
    use berth_agent_journal::GuestJournal as _;
    harness.journal().accept(&request(1, &[1])).await.unwrap();
}
