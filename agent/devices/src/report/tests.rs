use berth_agent_journal::{Quarantine, QuarantinedBy};
use berth_model::{ResourceClass, Trait};
use berth_virt::{DeviceCondition, DeviceType};
use berth_wire::accelerator::{KnownDeployable, KnownDevice};
use uuid::Uuid;

use super::*;

fn node() -> NodeName {
    NodeName::new("compute1").unwrap()
}

fn device(handles: Vec<OfferedHandle>) -> OfferedDevice {
    OfferedDevice {
        address: "0000:84:00.0".parse().unwrap(),
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Accelerator,
        device_type: DeviceType::Gpu,
        model: Some("T4".to_owned()),
        numa_node: Some(1),
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::PGPU,
        class_origin: berth_virt::ClassOrigin::Configured,
        traits: BTreeSet::from([Trait::new("CUSTOM_A").unwrap()]),
        handles,
        unit: berth_virt::DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}

fn function(address: &str) -> OfferedHandle {
    OfferedHandle::Function(address.parse().unwrap())
}

fn mdev(number: u128) -> OfferedHandle {
    OfferedHandle::Mdev {
        uuid: Uuid::from_u128(number),
        parent: "0000:84:00.0".parse().unwrap(),
        mdev_type: "nvidia-35".to_owned(),
    }
}

fn body(devices: &[OfferedDevice], register: &Register) -> HostDevicesReport {
    let guests = BTreeSet::from([Uuid::from_u128(7).into()]);
    host_devices(&node(), None, devices, &guests, register, Scrub::Always)
}

#[test]
fn a_device_is_reported_under_cyborgs_name_and_uuid() {
    let report = body(
        &[device(vec![function("0000:84:00.0")])],
        &Register::default(),
    );
    assert_eq!(report.guests, Some(vec![Uuid::from_u128(7)]));
    let card = &report.devices[0];
    assert_eq!(
        (card.name.as_str(), card.vendor.as_str()),
        ("0000:84:00.0", "10de")
    );
    assert_eq!(card.device_type, "GPU");
    let deployable = &card.deployables[0];
    assert_eq!(deployable.name, "compute1_0000:84:00.0");
    assert_eq!(deployable.driver_name.as_deref(), Some("NVIDIA"));
    let named = Uuid::new_v3(&Uuid::NAMESPACE_DNS, b"compute1_0000:84:00.0");
    assert_eq!(deployable.rp_uuid, named);
    assert_eq!(
        (deployable.numa_node, deployable.health),
        (Some(1), Health::Ok)
    );
    assert_eq!(deployable.traits, ["CUSTOM_A"]);
    let handle = &deployable.attach_handles[0];
    assert_eq!((handle.attach_type.as_str(), handle.uuid), ("PCI", None));
    assert!(handle.scrubbed);
}

#[test]
fn a_functions_handle_has_the_network_that_it_is_on() {
    let on = |network: Option<&str>| OfferedDevice {
        device_type: DeviceType::Nic,
        physical_network: network.map(str::to_owned),
        ..device(vec![function("0000:84:00.4"), function("0000:84:00.5")])
    };
    for network in [Some("physnet1"), None] {
        let report = body(&[on(network)], &Register::default());
        let handles = &report.devices[0].deployables[0].attach_handles;
        let networks: Vec<_> = handles
            .iter()
            .map(|handle| handle.attach_info.physical_network.as_deref())
            .collect();
        assert_eq!(networks, [network; 2]);
    }
}

#[test]
fn a_mediated_devices_handle_has_its_uuid() {
    let report = body(&[device(vec![mdev(1), mdev(2)])], &Register::default());
    let handles = &report.devices[0].deployables[0].attach_handles;
    let uuids: Vec<_> = handles.iter().map(|handle| handle.uuid).collect();
    assert_eq!(uuids, [1, 2].map(|n| Some(Uuid::from_u128(n))));
    assert_eq!(
        handles[0].attach_info.asked_type.as_deref(),
        Some("nvidia-35")
    );
}

#[test]
fn devices_of_others_and_vanished_devices_are_not_reported() {
    let handles = || vec![function("0000:84:00.0")];
    let gone = DeviceCondition::Unfit {
        reason: UnfitReason::Vanished,
    };
    let cases = [
        OfferedDevice {
            owner: DeviceOwner::Compute,
            ..device(handles())
        },
        OfferedDevice {
            condition: gone,
            ..device(handles())
        },
        device(Vec::new()),
    ];
    for case in cases {
        assert_eq!(body(&[case], &Register::default()).devices, []);
    }
}

#[test]
fn a_quarantine_and_a_cleaning_are_reported_only_for_their_handle() {
    let mut register = Register::default();
    let why = Quarantine::new("hot", QuarantinedBy::Operator);
    register.quarantines.insert("0000:84:00.4".to_owned(), why);
    register
        .release_count_at_reset
        .insert("0000:84:00.5".to_owned(), 42);
    let handles = vec![function("0000:84:00.4"), function("0000:84:00.5")];
    let report = body(&[device(handles)], &register);
    let [aside, clean] = report.devices[0].deployables[0].attach_handles.as_slice() else {
        panic!("two handles");
    };
    assert!(aside.unavailable.as_ref().unwrap().contains("hot"));
    assert_eq!((aside.cleaned, clean.cleaned), (None, Some(42)));
    assert_eq!(clean.unavailable, None);
}

#[test]
fn a_sick_device_says_why() {
    for reason in UnfitReason::ALL {
        let unhealthy = OfferedDevice {
            condition: DeviceCondition::Unfit { reason },
            ..device(vec![function("0000:84:00.0")])
        };
        let report = body(&[unhealthy], &Register::default());
        let Some(card) = report.devices.first() else {
            assert_eq!(reason, UnfitReason::Vanished);
            continue;
        };
        let deployable = &card.deployables[0];
        assert_eq!(deployable.health, Health::Bad);
        assert_eq!(deployable.health_reason, Some(reason.to_string()));
    }
}

/// The service's answer to a report of one card.
fn known(report: &HostDevicesReport, change: impl Fn(&mut KnownDevice)) -> KnownDevices {
    let device = |card: &ReportedHostDevice| {
        let deployable = &card.deployables[0];
        let handle = |handle: &HostAttachHandle| KnownAttachHandle {
            uuid: handle.uuid.unwrap_or(Uuid::from_u128(99)),
            attach_type: handle.attach_type.clone(),
            attach_info: handle.attach_info.clone(),
            vanished: false,
            releases: 5,
            unclean: false,
            arq_uuid: None,
            instance_uuid: None,
        };
        let mut device = KnownDevice {
            uuid: Uuid::from_u128(1),
            name: card.name.clone(),
            status: "enabled".to_owned(),
            vanished: false,
            deployables: vec![KnownDeployable {
                uuid: Uuid::from_u128(2),
                rp_uuid: deployable.rp_uuid,
                vanished: false,
                provider_missing: false,
                attach_handles: deployable.attach_handles.iter().map(handle).collect(),
            }],
        };
        change(&mut device);
        device
    };
    KnownDevices {
        devices: report.devices.iter().map(device).collect(),
        not_taken: Vec::new(),
        changes: None,
    }
}

fn advised(handle: OfferedHandle, change: impl Fn(&mut KnownDevice)) -> Advice {
    let devices = [device(vec![handle])];
    let report = body(&devices, &Register::default());
    advice(&node(), &known(&report, change), &devices)
}

#[test]
fn an_answer_without_work_gives_empty_advice() {
    let advice = advised(function("0000:84:00.0"), |_| {});
    let release_counts = BTreeMap::from([("0000:84:00.0".to_owned(), 5)]);
    let nothing = Advice {
        release_counts,
        ..Advice::default()
    };
    assert_eq!(advice, nothing);
}

#[test]
fn each_part_of_an_answer_gives_its_own_advice() {
    let provider =
        ProviderUuid::of_deployable(&node().deployable_name("0000:84:00.0".parse().unwrap()));
    let disabled = advised(mdev(3), |card| card.status = "maintaining".to_owned());
    assert_eq!(disabled.disabled, BTreeSet::from([provider]));
    let lost = advised(mdev(3), |card| card.deployables[0].provider_missing = true);
    assert_eq!(lost.missing, BTreeSet::from([provider]));
    let unclean = advised(mdev(3), |card| {
        card.deployables[0].attach_handles[0].unclean = true;
    });
    let [unclean] = unclean.unclean.as_slice() else {
        panic!("one is unclean: {unclean:?}");
    };
    assert_eq!(unclean.name, Uuid::from_u128(3).to_string());
    assert_eq!(
        (unclean.release_count, &unclean.wanted),
        (5, &wanted_device(&mdev(3)))
    );
}

#[test]
fn a_device_in_use_is_never_cleaned_and_is_reported_when_it_vanishes() {
    let hold = |card: &mut KnownDevice, gone: bool| {
        let handle = &mut card.deployables[0].attach_handles[0];
        handle.arq_uuid = Some(Uuid::from_u128(11));
        handle.instance_uuid = Some(Uuid::from_u128(12));
        handle.unclean = true;
        card.vanished = gone;
    };
    let held = advised(function("0000:84:00.0"), |card| hold(card, false));
    assert_eq!((held.unclean.len(), held.vanished.len()), (0, 0));
    assert_eq!(held.holders["0000:84:00.0"].arq, Uuid::from_u128(11).into());
    let gone = advised(function("0000:84:00.0"), |card| hold(card, true));
    assert_eq!(gone.vanished[0].name, "0000:84:00.0");
}
