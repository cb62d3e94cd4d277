//! Rescue, unrescue and rebuild: each killed at every crossing, each going wrong, asked twice, and asked at the wrong time.

use std::time::Duration;

use berth_agent_journal::AcceptOutcome;
use berth_agent_journal::samples::{guest, request};
use berth_model::NodeName;
use berth_virt::guest_spec::{DesiredPower, GuestBoot, HostPath, KernelCommandLine};
use berth_virt::{GuestError, PowerAction, Powered};

use crate::guests::Guests;
use crate::outcome::ReconcileOutcome;
use crate::power::PowerError;
use crate::stage::{Devices, Fault, Hypervisor, Kill, Mishap, Stage, base, image, with_disks};
use crate::tests::judge;
use crate::transition::{RescueSystem, TransitionError, TransitionRequest};

const STOP: PowerAction = PowerAction::Stop {
    grace: Duration::ZERO,
};

pub(super) fn file(name: &str) -> String {
    format!("/instances/{}/{name}", guest(1))
}

/// The guest runs, and its tenant wrote on its disks.
pub(super) async fn running() -> Stage {
    let stage = Stage::new().await;
    stage.bind(1, &[1, 2]);
    let guests = stage.guests();
    guests.create(&with_disks()).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let mut world = stage.world();
    world.files.insert(file("disk"), "tenant's".to_owned());
    world.files.insert(file("disk.eph0"), "tenant's".to_owned());
    drop(world);
    stage
}

/// What is asked, and from where.
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
            },
        }
    }

    async fn stage(self) -> Stage {
        let stage = running().await;
        if self == Self::Unrescue {
            stage.guests().change(guest(1), &rescue()).await.unwrap();
        }
        stage
    }

    /// As one who never gives up asks.
    async fn run(self, stage: &Stage) {
        let guests = stage.guests();
        let end = guests.journey(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{self:?}: {end:?}"
        );
        is_whole(stage, &guests).await;
        match guests.change(guest(1), &self.change()).await {
            Ok(()) => {}
            Err(TransitionError::NotRescued { .. }) if self == Self::Unrescue => {}
            Err(error) => panic!("{self:?}: {error}"),
        }
    }

    async fn until_killed(self, stage: &Stage, kill: Option<Kill>) -> bool {
        stage.kill_at(kill);
        tokio::select! {
            biased;
            () = stage.dies() => true,
            () = self.run(stage) => false,
        }
    }

    async fn check(self, stage: &Stage) {
        judge::at_rest(stage).await;
        let guests = stage.guests();
        is_whole(stage, &guests).await;
        assert_eq!(stage.running(1), ["0000:01:00.0", "0000:02:00.0"]);
        let world = stage.world();
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

/// The guest is in one of its forms, wholly: document, files and journal say the same.
pub(super) async fn is_whole(stage: &Stage, guests: &Guests<Hypervisor, Devices>) {
    let record = guests.show(guest(1)).await.unwrap();
    assert_eq!(record.life.turning, None);
    let present = record.present().unwrap();
    let world = stage.world();
    let document = &world.documents[&guest(1)];
    assert_eq!(document.disks, present.spec().disks);
    assert_eq!(document.boot, present.spec().boot);
    assert_eq!(document.devices.as_slice().len(), 2);
    let disks = &present.spec().disks;
    for disk in disks.root().into_iter().chain(disks.ephemeral()) {
        assert!(world.files.contains_key(disk.path.as_str()), "{disk:?}");
    }
}

pub(super) fn kills(crossings: usize) -> impl Iterator<Item = Kill> {
    (1..=crossings).flat_map(|at| [false, true].map(|after| Kill { at, after }))
}

#[tokio::test]
async fn a_kill_at_any_crossing_of_a_change_leaves_the_guest_in_one_form_with_its_devices() {
    let mut cases = 0;
    for ask in ASKS {
        let stage = ask.stage().await;
        assert!(!ask.until_killed(&stage, None).await);
        let crossings = stage.count();
        ask.check(&stage).await;
        for kill in kills(crossings) {
            let stage = ask.stage().await;
            assert!(
                ask.until_killed(&stage, Some(kill)).await,
                "{ask:?} {kill:?}"
            );
            judge::always(&stage).await;
            assert!(!ask.until_killed(&stage, None).await);
            ask.check(&stage).await;
            cases += 1;
        }
    }
    assert!(cases > 150, "{cases} cases");
}

#[tokio::test]
async fn an_error_at_any_crossing_of_a_change_ends_done_or_as_it_was() {
    for ask in ASKS {
        let clean = ask.stage().await;
        ask.until_killed(&clean, None).await;
        for point in kills(clean.count()) {
            let stage = ask.stage().await;
            stage.fault_at(Some(point), Fault::Error);
            let guests = stage.guests();
            guests.change(guest(1), &ask.change()).await.ok();
            judge::always(&stage).await;
            for _ in 0..2 {
                let end = guests.journey(guest(1)).await;
                assert!(
                    matches!(
                        end,
                        ReconcileOutcome::Settled | ReconcileOutcome::Held { .. }
                    ),
                    "{ask:?} at {point:?}: {end:?}"
                );
            }
            stage.kill_at(None);
            assert!(!ask.until_killed(&stage, None).await);
            ask.check(&stage).await;
        }
    }
}

#[tokio::test]
async fn a_rescued_guest_is_rescued_after_a_boot_of_the_host_and_a_rebuilt_one_rebuilt() {
    for ask in ASKS {
        let stage = ask.stage().await;
        stage
            .guests()
            .change(guest(1), &ask.change())
            .await
            .unwrap();
        stage.reboot_host();
        let end = stage.guests().mend(guest(1)).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{ask:?}: {end:?}");
        ask.check(&stage).await;
    }
}

#[tokio::test]
async fn what_cannot_be_had_is_said_before_the_guest_is_switched_off() {
    for (mishap, sentence) in [
        (Mishap::NoImage, "its checksum is another"),
        (Mishap::DeviceSick(2), "its link is down"),
        (Mishap::Bound(2, "compute2", 1), "on host compute2"),
        (Mishap::ServiceAway, "connection reset"),
    ] {
        let stage = running().await;
        stage.comes(mishap);
        let guests = stage.guests();
        let error = guests.change(guest(1), &rescue()).await.unwrap_err();
        assert!(error.to_string().contains(sentence), "{mishap:?}: {error}");
        assert_eq!(stage.running(1).len(), 2, "{mishap:?}");
        is_whole(&stage, &guests).await;
    }
}

#[tokio::test]
async fn a_change_that_does_not_come_about_is_held_and_done_when_it_can_be() {
    for mishap in [
        Mishap::PrepareFails(2),
        Mishap::RedefineFails,
        Mishap::StartFails,
    ] {
        let stage = running().await;
        stage.comes(mishap);
        let guests = stage.guests();
        let error = guests.change(guest(1), &rescue()).await.unwrap_err();
        assert!(
            matches!(error, TransitionError::Held { .. }),
            "{mishap:?}: {error}"
        );
        assert!(guests.held().contains_key(&guest(1)), "{mishap:?}");
        assert!(stage.is_bound(1) && stage.is_bound(2), "{mishap:?}");
        // Nothing else is done with it, but to have it deleted or its own again.
        let other = TransitionRequest::Rebuild {
            image: image('c'),
            preserve_ephemeral: true,
        };
        let busy = guests.change(guest(1), &other).await.unwrap_err();
        assert!(
            matches!(&busy, TransitionError::Power(PowerError::Busy { course, .. }) if *course == "rescue"),
            "{mishap:?}: {busy}"
        );
        stage.heals();
        let end = guests.journey(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{mishap:?}: {end:?}"
        );
        Ask::Rescue.check(&stage).await;
    }
}

#[tokio::test]
async fn a_rescue_that_does_not_start_can_be_ended() {
    let stage = running().await;
    stage.comes(Mishap::StartFails);
    let guests = stage.guests();
    let error = guests.change(guest(1), &rescue()).await.unwrap_err();
    assert!(matches!(error, TransitionError::Held { .. }), "{error}");
    stage.heals();
    guests
        .change(guest(1), &TransitionRequest::Unrescue)
        .await
        .unwrap();
    Ask::Unrescue.check(&stage).await;
}

#[tokio::test]
async fn a_guest_deleted_in_the_middle_of_a_change_leaves_nothing() {
    for ask in ASKS {
        let clean = ask.stage().await;
        ask.until_killed(&clean, None).await;
        for kill in kills(clean.count()).step_by(3) {
            let stage = ask.stage().await;
            assert!(ask.until_killed(&stage, Some(kill)).await);
            stage.kill_at(None);
            let guests = stage.guests();
            guests.delete(guest(1)).await.unwrap();
            assert!(matches!(
                guests.journey(guest(1)).await,
                ReconcileOutcome::Gone
            ));
            judge::at_rest(&stage).await;
            assert!(stage.world().files.is_empty(), "{ask:?} {kill:?}");
        }
    }
}

#[tokio::test]
async fn a_guest_that_is_deleted_while_its_image_comes_is_gone_without_it() {
    let stage = Stage::new().await;
    stage.bind(1, &[1, 2]);
    stage.comes(Mishap::EndlessImage);
    let guests = stage.guests();
    guests.create(&with_disks()).await.unwrap();
    comes(&stage).await;
    guests.delete(guest(1)).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    let history = stage.history();
    assert!(
        !history.iter().any(|line| line.contains("sysfs write")),
        "no device was touched for it: {history:?}"
    );
    judge::at_rest(&stage).await;
}

#[tokio::test]
async fn an_agent_that_stops_waits_for_no_image_and_the_next_start_goes_on() {
    let stage = Stage::new().await;
    stage.bind(1, &[1, 2]);
    stage.comes(Mishap::EndlessImage);
    let guests = stage.guests();
    guests.create(&with_disks()).await.unwrap();
    comes(&stage).await;
    guests.stop().await;
    stage.heals();
    let guests = stage.guests();
    let end = guests.journey(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    judge::at_rest(&stage).await;
}

#[tokio::test]
async fn a_guest_that_is_deleted_while_the_image_of_its_change_comes_is_gone_without_it() {
    let stage = running().await;
    stage.comes(Mishap::EndlessImage);
    let guests = stage.guests();
    let changing = {
        let guests = guests.clone();
        tokio::spawn(async move { guests.change(guest(1), &rescue()).await })
    };
    while stage.history().iter().filter(|it| is_fetch(it)).count() < 2 {
        tokio::task::yield_now().await;
    }
    let record = guests.show(guest(1)).await.unwrap();
    assert!(guests.coming(&record).is_some(), "how far it is is shown");
    guests.delete(guest(1)).await.unwrap();
    let end = changing.await.unwrap();
    assert!(guests.coming(&record).is_none(), "nobody waits for it");
    assert!(
        matches!(end, Err(TransitionError::Overtaken { .. })),
        "{end:?}"
    );
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    judge::at_rest(&stage).await;
}

fn is_fetch(line: &str) -> bool {
    line.contains("images write fetch")
}

/// Until an image is coming.
async fn comes(stage: &Stage) {
    while !stage.history().iter().any(|line| is_fetch(line)) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_same_change_again_is_one_change_and_others_are_refused_at_the_wrong_time() {
    let stage = running().await;
    let guests = stage.guests();
    let rebuild = Ask::Rebuild {
        preserve_ephemeral: true,
    };
    let not_yet = guests.change(guest(1), &TransitionRequest::Unrescue).await;
    assert!(matches!(not_yet, Err(TransitionError::NotRescued { .. })));
    guests.change(guest(1), &rescue()).await.unwrap();
    let crossings = stage.history().len();
    guests.change(guest(1), &rescue()).await.unwrap();
    let again = stage.history().split_off(crossings);
    assert!(
        again.iter().all(|line| line.contains(" read ")),
        "{again:?}"
    );
    for other in [Ask::RescueKernel, rebuild] {
        let refused = guests.change(guest(1), &other.change()).await;
        assert!(
            matches!(refused, Err(TransitionError::Rescued { .. })),
            "{refused:?}"
        );
    }
    // Its power is its own all the while.
    for (action, runs) in [(STOP, 0), (PowerAction::Start, 2)] {
        assert_eq!(guests.power(guest(1), action).await.unwrap(), Powered::Done);
        assert_eq!(stage.running(1).len(), runs);
    }
    is_whole(&stage, &guests).await;
    // The request is the same guest, whatever became of it.
    assert_eq!(
        guests.create(&with_disks()).await.unwrap(),
        AcceptOutcome::Same
    );
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    guests
        .change(guest(1), &TransitionRequest::Unrescue)
        .await
        .unwrap();
    // One that is off is rebuilt, and stays off.
    let _ = guests.power(guest(1), STOP).await.unwrap();
    guests.change(guest(1), &rebuild.change()).await.unwrap();
    assert!(stage.running(1).is_empty());
    is_whole(&stage, &guests).await;
    let unknown = guests.change(guest(5), &rescue()).await;
    assert!(matches!(
        unknown,
        Err(TransitionError::Power(PowerError::NotFound { .. }))
    ));
}

#[tokio::test]
async fn a_guest_whose_disks_are_its_makers_is_rescued_by_a_kernel_alone() {
    let stage = Stage::new().await;
    stage.bind(1, &[1, 2]);
    let guests = stage.guests();
    guests.create(&request(1, &[1, 2])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    for ask in [
        Ask::Rescue,
        Ask::Rebuild {
            preserve_ephemeral: true,
        },
    ] {
        let error = guests.change(guest(1), &ask.change()).await.unwrap_err();
        assert!(
            matches!(error, TransitionError::NotItsDisks { .. }),
            "{error}"
        );
    }
    guests
        .change(guest(1), &Ask::RescueKernel.change())
        .await
        .unwrap();
    assert_eq!(stage.world().documents[&guest(1)].boot, kernel());
}

#[tokio::test]
async fn with_devices_nothing_is_suspended_or_moved_and_without_it_is_suspended() {
    let stage = running().await;
    stage.bind(2, &[]);
    let guests = stage.guests();
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
        assert_eq!(stage.running(1).len(), 2);
        let record = guests.show(guest(1)).await.unwrap();
        assert_eq!(record.power, DesiredPower::Running);
    }
    guests.create(&request(2, &[])).await.unwrap();
    assert!(matches!(
        guests.journey(guest(2)).await,
        ReconcileOutcome::Settled
    ));
    let moved = guests.live_migrate(guest(2), &node).await;
    assert!(matches!(
        moved,
        Err(PowerError::Driver(GuestError::Unsupported { .. }))
    ));
    assert_eq!(guests.suspend(guest(2), None).await.unwrap(), Powered::Done);
    let record = guests.show(guest(2)).await.unwrap();
    assert_eq!(record.power, DesiredPower::ShutOff);
}

#[tokio::test]
async fn a_guest_that_went_off_without_berth_says_so_until_it_is_started() {
    let stage = running().await;
    let guests = stage.guests();
    stage.guest_ends(1);
    assert!(matches!(
        guests.mend(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let record = guests.show(guest(1)).await.unwrap();
    assert!(record.life.ended && record.power == DesiredPower::ShutOff);
    // Not fought: nothing starts it by itself, not even a boot of the host.
    stage.reboot_host();
    let guests = stage.guests();
    assert!(matches!(
        guests.mend(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    assert!(stage.running(1).is_empty());
    let _ = guests.power(guest(1), PowerAction::Start).await.unwrap();
    assert!(!guests.show(guest(1)).await.unwrap().life.ended);
}
