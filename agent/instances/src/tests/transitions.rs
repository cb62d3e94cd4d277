//! Tests of rescue, unrescue and rebuild: killed at every call, failing, repeated, and requested in the wrong state.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_agent_journal::AcceptOutcome;
use berth_agent_journal::samples::{guest, request};
use berth_model::{DiskBus, NodeName};
use berth_virt::guest_spec::{DesiredPower, GuestBoot, HostPath, KernelCommandLine};
use berth_virt::{GuestError, GuestPowerOutcome, HostDeviceId, PowerAction};

use crate::fault_harness::{
    FaultHarness, FaultPoint, InjectedFault, SimulatedFailure, SimulatedHypervisor,
    SimulatedResources, base, image, with_disks,
};
use crate::guests::Guests;
use crate::outcome::ReconcileOutcome;
use crate::power::PowerError;
use crate::tests::invariants;
use crate::transition::{MachineDescription, RescueSystem, TransitionError, TransitionRequest};

const STOP: PowerAction = PowerAction::Stop {
    grace: Duration::ZERO,
};

pub(super) fn file(name: &str) -> String {
    format!("/instances/{}/{name}", guest(1))
}

/// The guest runs, and its tenant has written to its disks.
pub(super) async fn running() -> FaultHarness {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    let guests = harness.guests();
    guests.create(&with_disks()).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let mut world = harness.world();
    world.files.insert(file("disk"), "tenant's".to_owned());
    world.files.insert(file("disk.eph0"), "tenant's".to_owned());
    drop(world);
    harness
}

/// A machine with SCSI disks.
fn of_scsi() -> MachineDescription {
    let properties = [("hw_disk_bus", "scsi"), ("os_distro", "debian")];
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
    MachineDescription {
        extra_specs: BTreeMap::new(),
        properties: BTreeMap::from(properties),
    }
}

/// A transition and the state before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Rescue,
    RescueKernel,
    Unrescue,
    Rebuild { preserve_ephemeral: bool },
}

const ASKS: [Ask; 5] = [
    Ask::Rescue,
    Ask::RescueKernel,
    Ask::Unrescue,
    Ask::Rebuild {
        preserve_ephemeral: false,
    },
    Ask::Rebuild {
        preserve_ephemeral: true,
    },
];

fn kernel() -> GuestBoot {
    GuestBoot::Kernel {
        kernel: HostPath::new("/images/vmlinuz").unwrap(),
        ramdisk: None,
        command_line: KernelCommandLine::new("rescue").unwrap(),
    }
}

fn rescue() -> TransitionRequest {
    TransitionRequest::Rescue {
        system: RescueSystem::Image(image('b')),
        grace: Duration::ZERO,
    }
}

impl Ask {
    fn change(self) -> TransitionRequest {
        match self {
            Self::Rescue => rescue(),
            Self::RescueKernel => TransitionRequest::Rescue {
                system: RescueSystem::Kernel(kernel()),
                grace: Duration::from_secs(3),
            },
            Self::Unrescue => TransitionRequest::Unrescue,
            Self::Rebuild { preserve_ephemeral } => TransitionRequest::Rebuild {
                image: image('c'),
                preserve_ephemeral,
                machine: (!preserve_ephemeral).then(of_scsi),
            },
        }
    }

    async fn harness(self) -> FaultHarness {
        let harness = running().await;
        if self == Self::Unrescue {
            harness
                .guests()
                .transition(guest(1), &rescue())
                .await
                .unwrap();
        }
        harness
    }

    /// Repeats the request until it succeeds.
    async fn run(self, harness: &FaultHarness) {
        let guests = harness.guests();
        let end = guests.reconcile_instance(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{self:?}: {end:?}"
        );
        is_whole(harness, &guests).await;
        match guests.transition(guest(1), &self.change()).await {
            Ok(()) => {}
            Err(TransitionError::NotRescued { .. }) if self == Self::Unrescue => {}
            Err(error) => panic!("{self:?}: {error}"),
        }
    }

    async fn until_killed(self, harness: &FaultHarness, kill: Option<FaultPoint>) -> bool {
        harness.kill_at(kill);
        tokio::select! {
            biased;
            () = harness.wait_for_kill() => true,
            () = self.run(harness) => false,
        }
    }

    async fn check(self, harness: &FaultHarness) {
        invariants::check_at_rest(harness).await;
        let guests = harness.guests();
        is_whole(harness, &guests).await;
        assert_eq!(
            harness.devices_of_running_guest(1),
            ["0000:01:00.0", "0000:02:00.0"]
        );
        let world = harness.world();
        let content = |name: &str| world.files.get(&file(name)).cloned();
        let (root, ephemeral, rescue) = match self {
            Self::Rescue => ("tenant's".to_owned(), "tenant's", Some(base('b'))),
            Self::RescueKernel | Self::Unrescue => ("tenant's".to_owned(), "tenant's", None),
            Self::Rebuild {
                preserve_ephemeral: true,
            } => (base('c'), "tenant's", None),
            Self::Rebuild { .. } => (base('c'), "empty", None),
        };
        assert_eq!(content("disk"), Some(root), "{self:?}");
        assert_eq!(content("disk.eph0").as_deref(), Some(ephemeral), "{self:?}");
        assert_eq!(content("disk.rescue"), rescue, "{self:?}");
    }
}

/// Checks that definition, files and journal agree on the guest's boot source.
pub(super) async fn is_whole(
    harness: &FaultHarness,
    guests: &Guests<SimulatedHypervisor, SimulatedResources>,
) {
    let record = guests.show(guest(1)).await.unwrap();
    assert_eq!(record.overrides.transition, None);
    let present = record.present().unwrap();
    let world = harness.world();
    let document = &world.documents[&guest(1)];
    assert_eq!(document.disks, present.spec().disks);
    assert_eq!(document.boot, present.spec().boot);
    assert_eq!(document.machine, present.spec().machine);
    assert_eq!(document.devices.as_slice().len(), 2);
    let disks = &present.spec().disks;
    for disk in disks.root().into_iter().chain(disks.ephemeral()) {
        assert!(world.files.contains_key(disk.path.as_str()), "{disk:?}");
    }
}

pub(super) fn kills(crossings: usize) -> impl Iterator<Item = FaultPoint> {
    (1..=crossings).flat_map(|at| [false, true].map(|after| FaultPoint { at, after }))
}

#[tokio::test]
async fn a_kill_at_any_point_of_a_transition_leaves_a_consistent_guest_with_its_devices() {
    let mut cases = 0;
    for ask in ASKS {
        let harness = ask.harness().await;
        assert!(!ask.until_killed(&harness, None).await);
        let crossings = harness.count();
        ask.check(&harness).await;
        for kill in kills(crossings) {
            let harness = ask.harness().await;
            assert!(
                ask.until_killed(&harness, Some(kill)).await,
                "{ask:?} {kill:?}"
            );
            invariants::check_always(&harness).await;
            assert!(!ask.until_killed(&harness, None).await);
            ask.check(&harness).await;
            cases += 1;
        }
    }
    assert!(cases > 150, "{cases} cases");
}

#[tokio::test]
async fn an_error_at_any_point_of_a_transition_ends_done_or_unchanged() {
    for ask in ASKS {
        let clean = ask.harness().await;
        ask.until_killed(&clean, None).await;
        for point in kills(clean.count()) {
            let harness = ask.harness().await;
            harness.fault_at(Some(point), InjectedFault::Error);
            let guests = harness.guests();
            guests.transition(guest(1), &ask.change()).await.ok();
            invariants::check_always(&harness).await;
            for _ in 0..2 {
                let end = guests.reconcile_instance(guest(1)).await;
                assert!(
                    matches!(
                        end,
                        ReconcileOutcome::Settled | ReconcileOutcome::Blocked { .. }
                    ),
                    "{ask:?} at {point:?}: {end:?}"
                );
            }
            harness.kill_agent();
            assert!(!ask.until_killed(&harness, None).await);
            ask.check(&harness).await;
        }
    }
}

#[tokio::test]
async fn a_rescued_guest_is_rescued_after_a_boot_of_the_host_and_a_rebuilt_one_rebuilt() {
    for ask in ASKS {
        let harness = ask.harness().await;
        harness
            .guests()
            .transition(guest(1), &ask.change())
            .await
            .unwrap();
        harness.reboot_host();
        let end = harness.guests().sync_one(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{ask:?}: {end:?}");
        ask.check(&harness).await;
    }
}

#[tokio::test]
async fn missing_resources_are_reported_before_the_guest_is_stopped() {
    for (failure, sentence) in [
        (SimulatedFailure::NoImage, "its checksum does not match"),
        (SimulatedFailure::DeviceUnhealthy(2), "its link is down"),
        (
            SimulatedFailure::Bound(2, "compute2", 1),
            "on host compute2",
        ),
        (SimulatedFailure::ServiceAway, "connection reset"),
    ] {
        let harness = running().await;
        harness.add_failure(failure);
        let guests = harness.guests();
        let error = guests.transition(guest(1), &rescue()).await.unwrap_err();
        assert!(error.to_string().contains(sentence), "{failure:?}: {error}");
        assert_eq!(harness.devices_of_running_guest(1).len(), 2, "{failure:?}");
        is_whole(&harness, &guests).await;
    }
}

#[tokio::test]
async fn a_change_that_does_not_come_about_is_held_and_done_when_it_can_be() {
    for failure in [
        SimulatedFailure::PrepareFails(2),
        SimulatedFailure::RedefineFails,
        SimulatedFailure::StartFails,
    ] {
        let harness = running().await;
        harness.add_failure(failure);
        let guests = harness.guests();
        let error = guests.transition(guest(1), &rescue()).await.unwrap_err();
        assert!(
            matches!(error, TransitionError::Blocked { .. }),
            "{failure:?}: {error}"
        );
        assert!(guests.blocked().contains_key(&guest(1)), "{failure:?}");
        assert!(harness.is_bound(1) && harness.is_bound(2), "{failure:?}");
        // Nothing else is possible meanwhile, except deletion and unrescue.
        let other = TransitionRequest::Rebuild {
            image: image('c'),
            preserve_ephemeral: true,
            machine: None,
        };
        let busy = guests.transition(guest(1), &other).await.unwrap_err();
        assert!(
            matches!(&busy, TransitionError::Power(PowerError::Busy { operation, .. }) if *operation == "rescue"),
            "{failure:?}: {busy}"
        );
        harness.clear_failures();
        let end = guests.reconcile_instance(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{failure:?}: {end:?}"
        );
        Ask::Rescue.check(&harness).await;
    }
}

#[tokio::test]
async fn a_rescue_that_does_not_start_can_be_ended() {
    let harness = running().await;
    harness.add_failure(SimulatedFailure::StartFails);
    let guests = harness.guests();
    let error = guests.transition(guest(1), &rescue()).await.unwrap_err();
    assert!(matches!(error, TransitionError::Blocked { .. }), "{error}");
    harness.clear_failures();
    guests
        .transition(guest(1), &TransitionRequest::Unrescue)
        .await
        .unwrap();
    Ask::Unrescue.check(&harness).await;
}

#[tokio::test]
async fn a_rebuild_that_the_hypervisor_refuses_can_be_replaced_by_another() {
    let harness = running().await;
    harness.add_failure(SimulatedFailure::RedefineFails);
    let guests = harness.guests();
    let refused = Ask::Rebuild {
        preserve_ephemeral: false,
    };
    let refused = guests.transition(guest(1), &refused.change()).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, TransitionError::Blocked { .. }), "{error}");
    harness.clear_failures();
    let other = TransitionRequest::Rebuild {
        image: image('c'),
        preserve_ephemeral: true,
        machine: Some(MachineDescription {
            properties: BTreeMap::new(),
            ..of_scsi()
        }),
    };
    guests.transition(guest(1), &other).await.unwrap();
    assert_eq!(harness.world().documents[&guest(1)].machine.disk_bus, None);
    is_whole(&harness, &guests).await;
}

#[tokio::test]
async fn a_guest_deleted_in_the_middle_of_a_change_leaves_nothing() {
    for ask in ASKS {
        let clean = ask.harness().await;
        ask.until_killed(&clean, None).await;
        for kill in kills(clean.count()).step_by(3) {
            let harness = ask.harness().await;
            assert!(ask.until_killed(&harness, Some(kill)).await);
            harness.kill_agent();
            let guests = harness.guests();
            guests.delete(guest(1)).await.unwrap();
            assert!(matches!(
                guests.reconcile_instance(guest(1)).await,
                ReconcileOutcome::Gone
            ));
            invariants::check_at_rest(&harness).await;
            assert!(harness.world().files.is_empty(), "{ask:?} {kill:?}");
        }
    }
}

#[tokio::test]
async fn a_deletion_cancels_the_image_download_of_a_spawn() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    harness.add_failure(SimulatedFailure::EndlessImage);
    let guests = harness.guests();
    guests.create(&with_disks()).await.unwrap();
    comes(&harness).await;
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    let history = harness.history();
    assert!(
        !history.iter().any(|line| line.contains("sysfs write")),
        "no device was touched: {history:?}"
    );
    invariants::check_at_rest(&harness).await;
}

#[tokio::test]
async fn a_stopping_agent_does_not_wait_for_an_image_and_the_next_start_continues() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    harness.add_failure(SimulatedFailure::EndlessImage);
    let guests = harness.guests();
    guests.create(&with_disks()).await.unwrap();
    comes(&harness).await;
    guests.stop().await;
    harness.clear_failures();
    let guests = harness.guests();
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    invariants::check_at_rest(&harness).await;
}

#[tokio::test]
async fn a_deletion_cancels_the_image_download_of_a_transition() {
    let harness = running().await;
    harness.add_failure(SimulatedFailure::EndlessImage);
    let guests = harness.guests();
    let changing = {
        let guests = guests.clone();
        tokio::spawn(async move { guests.transition(guest(1), &rescue()).await })
    };
    while harness
        .history()
        .iter()
        .filter(|call| is_fetch(call))
        .count()
        < 2
    {
        tokio::task::yield_now().await;
    }
    let record = guests.show(guest(1)).await.unwrap();
    assert!(
        guests.download_progress(&record).is_some(),
        "the download's progress is shown"
    );
    guests.delete(guest(1)).await.unwrap();
    let end = changing.await.unwrap();
    assert!(
        guests.download_progress(&record).is_none(),
        "no download is tracked"
    );
    assert!(
        matches!(end, Err(TransitionError::Interrupted { .. })),
        "{end:?}"
    );
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    invariants::check_at_rest(&harness).await;
}

fn is_fetch(line: &str) -> bool {
    line.contains("images write fetch")
}

/// Waits until a download is running.
async fn comes(harness: &FaultHarness) {
    while !harness.history().iter().any(|line| is_fetch(line)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_rebuilt_guest_has_the_devices_of_the_new_image_and_keeps_them_in_a_rescue() {
    let harness = running().await;
    let guests = harness.guests();
    let rebuild = |machine| TransitionRequest::Rebuild {
        image: image('c'),
        preserve_ephemeral: true,
        machine,
    };
    let bus = || harness.world().documents[&guest(1)].machine.disk_bus;
    guests
        .transition(guest(1), &rebuild(Some(of_scsi())))
        .await
        .unwrap();
    assert_eq!(bus(), Some(DiskBus::Scsi));
    for request in [rescue(), TransitionRequest::Unrescue, rebuild(None)] {
        guests.transition(guest(1), &request).await.unwrap();
        assert_eq!(bus(), Some(DiskBus::Scsi), "{request:?}");
    }
    is_whole(&harness, &guests).await;
    let of_property = |name: &str, value: &str| MachineDescription {
        properties: BTreeMap::from([(name.to_owned(), value.to_owned())]),
        ..of_scsi()
    };
    // The devices have no places yet, because the guest did not need them.
    let of_host = rebuild(Some(of_property("berth_pci_topology", "host")));
    guests.transition(guest(1), &of_host).await.unwrap();
    let devices = harness.world().documents[&guest(1)].devices.clone();
    for attached in devices.as_slice() {
        let device = HostDeviceId::of(attached.device);
        assert!(devices.places().get(device).is_some(), "{device}");
    }
    for (name, value, expected) in [
        (
            "hw_disk_bus",
            "ide",
            "cannot be rebuilt: image.properties: hw_disk_bus: a q35 has no IDE bus",
        ),
        ("hw_firmware_type", "uefi", "keeps its firmware"),
    ] {
        let request = rebuild(Some(of_property(name, value)));
        let refused = guests.transition(guest(1), &request).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
        is_whole(&harness, &guests).await;
    }
    guests
        .transition(guest(1), &rebuild(Some(of_property("os_distro", "debian"))))
        .await
        .unwrap();
    assert_eq!(bus(), None);
    is_whole(&harness, &guests).await;
}

#[tokio::test]
async fn the_same_change_again_is_one_change_and_others_are_refused_at_the_wrong_time() {
    let harness = running().await;
    let guests = harness.guests();
    let rebuild = Ask::Rebuild {
        preserve_ephemeral: true,
    };
    let not_yet = guests
        .transition(guest(1), &TransitionRequest::Unrescue)
        .await;
    assert!(matches!(not_yet, Err(TransitionError::NotRescued { .. })));
    guests.transition(guest(1), &rescue()).await.unwrap();
    let crossings = harness.history().len();
    guests.transition(guest(1), &rescue()).await.unwrap();
    let again = harness.history().split_off(crossings);
    assert!(
        again.iter().all(|line| line.contains(" read ")),
        "{again:?}"
    );
    for other in [Ask::RescueKernel, rebuild] {
        let refused = guests.transition(guest(1), &other.change()).await;
        assert!(
            matches!(refused, Err(TransitionError::Rescued { .. })),
            "{refused:?}"
        );
    }
    // Power actions remain possible.
    for (action, runs) in [(STOP, 0), (PowerAction::Start, 2)] {
        assert_eq!(
            guests.power(guest(1), action).await.unwrap(),
            GuestPowerOutcome::Done
        );
        assert_eq!(harness.devices_of_running_guest(1).len(), runs);
    }
    is_whole(&harness, &guests).await;
    // The original request still identifies the guest.
    assert_eq!(
        guests.create(&with_disks()).await.unwrap(),
        AcceptOutcome::Same
    );
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    guests
        .transition(guest(1), &TransitionRequest::Unrescue)
        .await
        .unwrap();
    // A guest that is off is rebuilt and stays off.
    let _ = guests.power(guest(1), STOP).await.unwrap();
    guests
        .transition(guest(1), &rebuild.change())
        .await
        .unwrap();
    assert!(harness.devices_of_running_guest(1).is_empty());
    is_whole(&harness, &guests).await;
    let unknown = guests.transition(guest(5), &rescue()).await;
    assert!(matches!(
        unknown,
        Err(TransitionError::Power(PowerError::NotFound { .. }))
    ));
}

#[tokio::test]
async fn a_guest_whose_disks_are_its_makers_is_rescued_by_a_kernel_alone() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1, 2]);
    let guests = harness.guests();
    guests.create(&request(1, &[1, 2])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    for ask in [
        Ask::Rescue,
        Ask::Rebuild {
            preserve_ephemeral: true,
        },
    ] {
        let error = guests
            .transition(guest(1), &ask.change())
            .await
            .unwrap_err();
        assert!(
            matches!(error, TransitionError::NoManagedRoot { .. }),
            "{error}"
        );
    }
    guests
        .transition(guest(1), &Ask::RescueKernel.change())
        .await
        .unwrap();
    assert_eq!(harness.world().documents[&guest(1)].boot, kernel());
}

#[tokio::test]
async fn with_devices_nothing_is_suspended_or_moved_and_without_it_is_suspended() {
    let harness = running().await;
    harness.bind(2, &[]);
    let guests = harness.guests();
    let node = NodeName::new("compute2").unwrap();
    for refused in [
        guests.suspend(guest(1), None).await.map(drop),
        guests.live_migrate(guest(1), &node).await,
    ] {
        assert!(
            matches!(
                refused,
                Err(PowerError::Driver(GuestError::HoldsDevices { .. }))
            ),
            "{refused:?}"
        );
        assert_eq!(harness.devices_of_running_guest(1).len(), 2);
        let record = guests.show(guest(1)).await.unwrap();
        assert_eq!(record.power, DesiredPower::Running);
    }
    guests.create(&request(2, &[])).await.unwrap();
    assert!(matches!(
        guests.reconcile_instance(guest(2)).await,
        ReconcileOutcome::Settled
    ));
    let moved = guests.live_migrate(guest(2), &node).await;
    assert!(matches!(
        moved,
        Err(PowerError::Driver(GuestError::Unsupported { .. }))
    ));
    assert_eq!(
        guests.suspend(guest(2), None).await.unwrap(),
        GuestPowerOutcome::Done
    );
    let record = guests.show(guest(2)).await.unwrap();
    assert_eq!(record.power, DesiredPower::ShutOff);
}

#[tokio::test]
async fn a_guest_that_shut_itself_down_shows_it_until_it_is_started() {
    let harness = running().await;
    let guests = harness.guests();
    harness.shut_guest_down(1);
    assert!(matches!(
        guests.sync_one(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let record = guests.show(guest(1)).await.unwrap();
    assert!(record.overrides.ended && record.power == DesiredPower::ShutOff);
    // The shutdown is accepted: nothing starts the guest again, not even a reboot of the host.
    harness.reboot_host();
    let guests = harness.guests();
    assert!(matches!(
        guests.sync_one(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    assert!(harness.devices_of_running_guest(1).is_empty());
    let _ = guests.power(guest(1), PowerAction::Start).await.unwrap();
    assert!(!guests.show(guest(1)).await.unwrap().overrides.ended);
}
