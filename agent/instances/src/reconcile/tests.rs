//! Tests of the comparison: a difference between each pair of sources.

use berth_agent_devices::DeviceSnapshot;
use berth_agent_devices::report::Holder;
use berth_agent_journal::samples::{NODE, arq, bound, guest, request};
use berth_agent_journal::{
    Goal, GuestRecord, GuestRequest, InstanceOverrides, SpawnStep, StepRecord, StepState,
};
use berth_model::ArqUuid;
use berth_virt::guest_spec::{
    DesiredPower, GuestDevice, GuestInterface, GuestInterfaces, GuestPort, GuestSpec,
    InterfaceSource, Label, LinkName, PciManagement, PlugSignal, PortConnection,
};
use berth_virt::{
    GuestHardware, GuestMark, GuestOnHost, HeldDevice, HostDeviceId, PowerState, Preparer,
    WantedDevice,
};
use uuid::Uuid;

use super::*;
use crate::fault_harness::FaultHarness;
use crate::outcome::ReconcileOutcome;

mod devices;
mod with_cyborg;

const BOOT: &str = "boot-1";

/// Guest 1 with the device of request 1, running.
fn record() -> GuestRecord {
    let step = |step| {
        let detail = match step {
            SpawnStep::Start => BOOT.to_owned(),
            _ => String::new(),
        };
        let state = StepState::Done;
        (step, StepRecord { state, detail })
    };
    GuestRecord {
        request: request(1, &[1]),
        goal: Goal::Spawn,
        power: DesiredPower::Running,
        steps: SpawnStep::ALL.iter().copied().map(step).collect(),
        devices: Some(bound(&[1])),
        overrides: InstanceOverrides::default(),
    }
}

fn on_host() -> GuestOnHost {
    let record = record();
    let spec = bound(&[1]).attached_to(record.request.spec()).unwrap();
    GuestOnHost {
        name: spec.name.to_string(),
        state: PowerState::Running,
        owner: Some(GuestMark {
            project: spec.owner.project.as_str().to_owned(),
            consumer: guest(1),
            requests: record.request.arqs().clone(),
        }),
        devices: spec.held_devices(),
        unreadable: None,
        hardware: Some(GuestHardware::of(&spec)),
        stuck: None,
        ended_by_hypervisor: false,
    }
}

fn device(number: u32) -> String {
    format!("0000:{number:02x}:00.0")
}

fn holder(number: u32, of: u32) -> Holder {
    Holder {
        arq: arq(number),
        guest: Some(guest(of)),
    }
}

fn provider(number: u32) -> String {
    format!("{NODE}_{}", device(number))
}

fn provider_uuid(number: u32) -> ProviderUuid {
    Uuid::from_u128(number.into()).into()
}

fn bound_here(number: u32, of: u32) -> BoundArq {
    BoundArq {
        arq: arq(number),
        guest: guest(of),
        provider: provider_uuid(number),
        device: device(number),
    }
}

/// A host whose sources agree.
fn agreed() -> ReconcileFacts {
    ReconcileFacts {
        ports: Vec::new(),
        boot_id: BOOT.to_owned(),
        journal: vec![record()],
        hypervisor: Some([(guest(1), on_host())].into()),
        devices: Some(DeviceSnapshot {
            offered: [(device(1), None), (device(2), None)].into(),
            providers: [1, 2]
                .map(|number| (device(number), provider(number)))
                .into(),
            holders: [(device(1), holder(1, 1))].into(),
            ..DeviceSnapshot::default()
        }),
        prepared: Vec::new(),
        requests: [(guest(1), Ok(bound(&[1])))].into(),
        bound_here: Vec::new(),
        allocations: Some([(guest(1), [NODE.to_owned(), provider(1)].into())].into()),
        providers: [1, 2]
            .map(|number| (provider_uuid(number), provider(number)))
            .into(),
    }
}

fn codes(change: impl FnOnce(&mut ReconcileFacts)) -> Vec<&'static str> {
    let mut facts = agreed();
    change(&mut facts);
    compare(&facts).iter().map(ReconcileFinding::code).collect()
}

fn hypervisor(facts: &mut ReconcileFacts) -> &mut BTreeMap<ConsumerUuid, GuestOnHost> {
    facts.hypervisor.as_mut().unwrap()
}

fn devices(facts: &mut ReconcileFacts) -> &mut DeviceSnapshot {
    facts.devices.as_mut().unwrap()
}

#[test]
fn where_all_agree_nothing_is_found() {
    assert_eq!(codes(|_| {}), Vec::<&str>::new());
}

#[test]
fn each_difference_between_two_sources_has_its_own_finding() {
    type Change = fn(&mut ReconcileFacts);
    let cases: [(&str, Change); 22] = [
        ("guest_unfinished", |facts| {
            facts.journal[0].steps.remove(&SpawnStep::Start);
        }),
        ("guest_away", |facts| hypervisor(facts).clear()),
        ("guest_away", |facts| {
            facts.boot_id = "boot-2".to_owned();
            hypervisor(facts).get_mut(&guest(1)).unwrap().state = PowerState::ShutOff;
        }),
        ("guest_ended", |facts| {
            hypervisor(facts).get_mut(&guest(1)).unwrap().state = PowerState::ShutOff;
        }),
        ("guest_not_at_rest", |facts| {
            facts.journal[0].power = DesiredPower::ShutOff;
        }),
        ("guest_not_at_rest", |facts| {
            facts.journal[0].power = DesiredPower::Paused;
        }),
        ("guest_not_at_rest", |facts| {
            facts.journal[0].power = DesiredPower::ShutOff;
            hypervisor(facts).get_mut(&guest(1)).unwrap().state = PowerState::Paused;
        }),
        ("guest_paused", |facts| {
            hypervisor(facts).get_mut(&guest(1)).unwrap().state = PowerState::Paused;
        }),
        ("guest_undone", |facts| {
            let reason = "no".to_owned();
            facts.journal[0].goal = Goal::Undo {
                reason,
                blame: None,
            };
            for step in facts.journal[0].steps.values_mut() {
                step.state = StepState::Undone;
            }
        }),
        ("guest_differs", |facts| {
            hypervisor(facts)
                .get_mut(&guest(1))
                .unwrap()
                .devices
                .clear();
        }),
        ("domain_differs", |facts| {
            let hardware = &mut hypervisor(facts).get_mut(&guest(1)).unwrap().hardware;
            hardware.as_mut().unwrap().memory_mib += 1;
        }),
        ("guest_stuck", |facts| {
            // While any operation is in progress.
            facts.journal[0].steps.remove(&SpawnStep::Start);
            let stuck = &mut hypervisor(facts).get_mut(&guest(1)).unwrap().stuck;
            *stuck = Some("libvirtd was killed".to_owned());
        }),
        ("guest_orphan", |facts| {
            hypervisor(facts).insert(guest(2), on_host());
        }),
        ("device_unfit", |facts| {
            let why = Some("it is gone".to_owned());
            devices(facts).offered.insert(device(1), why);
        }),
        ("device_taken", |facts| {
            let held = HeldDevice {
                device: HostDeviceId::Function(device(2).parse().unwrap()),
                arq: None,
                is_interface: false,
            };
            let unowned = GuestOnHost {
                owner: None,
                devices: [held].into(),
                ..on_host()
            };
            hypervisor(facts).insert(guest(9), unowned);
        }),
        ("device_unclean", |facts| {
            devices(facts).unclean.insert(device(2));
        }),
        ("requests_differ", |facts| {
            facts.requests.insert(guest(1), Ok(bound(&[2])));
        }),
        ("request_orphan", |facts| {
            devices(facts).holders.insert(device(2), holder(2, 5));
        }),
        ("allocation_orphan", |facts| {
            let held = BTreeSet::from([NODE.to_owned()]);
            facts.allocations.as_mut().unwrap().insert(guest(5), held);
        }),
        ("request_orphan", |facts| {
            facts.bound_here.push(bound_here(2, 5))
        }),
        ("allocation_missing", |facts| {
            facts.allocations.as_mut().unwrap().clear();
        }),
        ("allocation_differs", |facts| {
            let held = facts.allocations.as_mut().unwrap();
            held.insert(guest(1), BTreeSet::from([NODE.to_owned()]));
        }),
    ];
    // The kinds that have a test of their own below.
    let mut seen = BTreeSet::from(["device_left", "mdev_orphan", "port_orphan"]);
    for (code, change) in cases {
        assert_eq!(codes(change), [code]);
        seen.insert(code);
    }
    let provider = Uuid::from_u128(3).into();
    let lost = codes(|facts| {
        devices(facts).missing.insert(provider);
    });
    assert_eq!(lost, ["provider_missing"]);
    seen.extend(lost);
    let all: BTreeSet<_> = FindingKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(seen, all);
    assert_eq!(
        all.len(),
        FindingKind::ALL.len(),
        "each kind has its own code"
    );
}

fn prepared(number: u32, by: Preparer) -> PreparedDevice {
    let address = device(number).parse().unwrap();
    PreparedDevice {
        wanted: WantedDevice::of(GuestDevice::Pci {
            address,
            managed: PciManagement::Hypervisor,
        }),
        by,
        group_members: BTreeSet::new(),
    }
}

#[test]
fn a_prepared_device_is_a_leftover_only_if_neither_it_nor_its_group_has_a_user() {
    let with = |by, change: fn(&mut ReconcileFacts)| {
        codes(|facts| {
            facts.prepared.push(prepared(2, by));
            change(facts);
        })
    };
    assert_eq!(with(Preparer::Berth, |_| {}), ["device_left"]);
    let mdev = with(Preparer::Berth, |facts| {
        let uuid = Uuid::from_u128(7);
        facts.prepared[0].wanted = WantedDevice::of(GuestDevice::Mdev { uuid });
    });
    assert_eq!(mdev, ["mdev_orphan"]);
    assert_eq!(with(Preparer::Another, |_| {}), Vec::<&str>::new());
    let held: [fn(&mut ReconcileFacts); 6] = [
        |facts| facts.prepared[0] = prepared(1, Preparer::Berth),
        |facts| {
            let of_the_guest = device(1).parse().unwrap();
            facts.prepared[0].group_members.insert(of_the_guest);
        },
        |facts| {
            devices(facts).withheld.insert(device(2));
        },
        // A possible user is unknown.
        |facts| facts.hypervisor = None,
        |facts| facts.devices = None,
        |facts| {
            let unreadable = GuestOnHost {
                owner: None,
                unreadable: Some("its document is no XML".to_owned()),
                devices: BTreeSet::new(),
                ..on_host()
            };
            hypervisor(facts).insert(guest(9), unreadable);
        },
    ];
    for change in held {
        assert_eq!(with(Preparer::Berth, change), Vec::<&str>::new());
    }
    let unclean = with(Preparer::Berth, |facts| {
        devices(facts).unclean.insert(device(2));
    });
    assert_eq!(unclean, ["device_unclean"], "it is reset in any case");
}

#[test]
fn what_could_not_be_read_is_no_finding() {
    assert_eq!(codes(|facts| facts.hypervisor = None), Vec::<&str>::new());
    assert_eq!(codes(|facts| facts.devices = None), Vec::<&str>::new());
    assert_eq!(codes(|facts| facts.requests.clear()), Vec::<&str>::new());
    assert_eq!(codes(|facts| facts.allocations = None), Vec::<&str>::new());
    // Placement has the device's provider under another name, or has none, and no reporter names one.
    assert_eq!(
        codes(|facts| {
            let held = BTreeSet::from([NODE.to_owned()]);
            facts.allocations = Some([(guest(1), held)].into());
            facts.providers.clear();
        }),
        Vec::<&str>::new()
    );
    // The hypervisor may have the guest that a request is bound for.
    let unknown = codes(|facts| {
        facts.hypervisor = None;
        devices(facts).holders.insert(device(2), holder(2, 5));
    });
    assert_eq!(unknown, Vec::<&str>::new());
}

#[test]
fn only_what_a_tenant_cannot_lose_by_is_repaired() {
    let (uuid, name, what) = (guest(1), device(1), String::new());
    let reported = [
        ReconcileFinding::GuestOrphan {
            guest: uuid,
            name: what.clone(),
        },
        ReconcileFinding::GuestDiffers {
            guest: uuid,
            difference: what.clone(),
        },
        ReconcileFinding::AllocationOrphan {
            consumer: uuid,
            providers: Vec::new(),
        },
        ReconcileFinding::RequestsDiffer {
            guest: uuid,
            reason: what,
        },
    ];
    for finding in reported {
        assert_eq!(finding.remedy(), Remedy::Reported, "{finding}");
    }
    let unclean = ReconcileFinding::DeviceUnclean { device: name };
    assert_eq!(unclean.remedy(), Remedy::Awaited);
    assert!(unclean.may_be_transient(), "cleaning is a transient state");
    let request = ReconcileFinding::RequestOrphan {
        arq: ArqUuid::from(Uuid::from_u128(1)),
        guest: None,
        device: String::new(),
        unbinder: Unbinder::Service,
    };
    assert_eq!(request.remedy(), Remedy::Awaited);
}

#[test]
fn a_provider_of_cyborgs_is_known_by_what_the_request_is_bound_to() {
    let found = |held: &[&str]| {
        let held: BTreeSet<String> = held.iter().map(|&name| name.to_owned()).collect();
        codes(|facts| {
            // The device is in [pci]: only Cyborg knows its provider.
            devices(facts).providers.clear();
            devices(facts).holders.clear();
            facts.bound_here.push(bound_here(1, 1));
            facts.providers.insert(provider_uuid(1), "fpga".to_owned());
            facts.allocations = Some([(guest(1), held)].into());
        })
    };
    assert_eq!(found(&[NODE, "fpga"]), Vec::<&str>::new());
    assert_eq!(found(&[NODE, "gpu"]), ["allocation_differs"]);
}

#[test]
fn a_device_in_use_is_not_unclean_even_if_the_accelerator_service_lost_its_binding() {
    let found = codes(|facts| {
        devices(facts).unclean.insert(device(1));
    });
    assert_eq!(found, Vec::<&str>::new());
}

/// Right after a start, interrupted boots are being undone, and release their resources themselves.
#[test]
fn allocations_of_a_boot_that_is_being_undone_are_not_reported_for_deletion() {
    let orphan = ReconcileFinding::AllocationOrphan {
        consumer: guest(5),
        providers: vec![NODE.to_owned()],
    };
    let (remedy, text) = orphan.describe(Duration::from_secs(3));
    assert_eq!(remedy, Remedy::Awaited);
    assert!(!text.contains("delete"), "{text}");
    assert!(
        text.contains("is not a guest of this host; this is normal while a guest is being created")
    );
    let (remedy, text) = orphan.describe(FINDING_GRACE);
    assert_eq!(remedy, Remedy::Reported);
    assert!(text.contains("audit --delete"), "{text}");
    let taken = ReconcileFinding::DeviceTaken {
        device: device(1),
        guest: guest(9),
    };
    assert_eq!(taken.describe(Duration::ZERO).0, Remedy::Reported);
}

fn found(reconciled: &ReconcileReport) -> Vec<&'static str> {
    let findings = reconciled.findings.iter();
    findings.map(|(finding, _)| finding.code()).collect()
}

#[tokio::test]
async fn a_guest_that_the_host_lost_is_found_and_brought_back() {
    let harness = FaultHarness::new().await;
    harness.bind(1, &[1]);
    let guests = harness.guests();
    let reconciler = Reconciler::new(guests.clone(), None, None);
    guests.create(&request(1, &[1])).await.unwrap();
    let unfinished = found(&reconciler.find_differences().await.unwrap());
    assert!(unfinished.is_empty() || unfinished == ["guest_unfinished"]);
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    assert_eq!(
        found(&reconciler.find_differences().await.unwrap()),
        Vec::<&str>::new()
    );

    harness.reboot_host();
    let guests = harness.guests();
    let reconciler = Reconciler::new(guests.clone(), None, None);
    let report = reconciler.find_differences().await.unwrap();
    assert_eq!(found(&report), ["guest_away"]);
    assert_eq!(
        found(&reconciler.find_differences().await.unwrap()),
        ["guest_away"]
    );
    reconciler.repair().await.unwrap();
    let end = guests.sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    assert_eq!(
        found(&reconciler.find_differences().await.unwrap()),
        Vec::<&str>::new()
    );
}

#[test]
fn an_interface_in_the_switch_is_an_orphan_only_if_its_guest_is_neither_known_nor_on_the_host() {
    let interface = |of: u32| SwitchInterface {
        name: "tap88a15950-b8".to_owned(),
        port_id: Some(Uuid::from_u128(1).to_string()),
        guest: Some(guest(of).to_string()),
        ..SwitchInterface::default()
    };
    let orphans = |facts: &ReconcileFacts| {
        let found = compare(facts);
        let ports = found.iter().map(|it| it.kind() == FindingKind::PortOrphan);
        ports.filter(|is_orphan| *is_orphan).count()
    };
    let with = |of: u32| ReconcileFacts {
        ports: vec![interface(of)],
        ..agreed()
    };
    // Guest 1 is known, and its record has no such port.
    assert_eq!(orphans(&with(1)), 1);
    assert_eq!(orphans(&with(2)), 1);
    let mut lost_journal = with(2);
    lost_journal.hypervisor = Some([(guest(2), on_host())].into());
    assert_eq!(orphans(&lost_journal), 0);
    let unreadable = ReconcileFacts {
        hypervisor: None,
        ..with(2)
    };
    assert_eq!(orphans(&unreadable), 0);
    let mut nameless = interface(2);
    nameless.guest = None;
    let facts = ReconcileFacts {
        ports: vec![nameless],
        ..agreed()
    };
    assert_eq!(orphans(&facts), 1);
    // A guest keeps its own port.
    let mut own = with(1);
    let port = GuestPort::new(
        Uuid::from_u128(0x88a1_5950_b800 << 80),
        Label::new("private").unwrap(),
        Vec::new(),
        None,
        PortConnection::OpenVswitch {
            bridge: LinkName::new("br-int").unwrap(),
            signal: PlugSignal::OvnInstalled,
        },
    );
    let request = &own.journal[0].request;
    let spec = GuestSpec {
        interfaces: GuestInterfaces::new(vec![GuestInterface {
            mac: "fa:16:3e:54:eb:90".parse().unwrap(),
            source: InterfaceSource::Port(Box::new(port.unwrap())),
        }])
        .unwrap(),
        ..request.spec().clone()
    };
    let arqs = request.arqs().iter().copied().collect();
    own.journal[0].request = GuestRequest::new(request.node().clone(), arqs, spec).unwrap();
    assert_eq!(orphans(&own), 0);
}
