//! Tests of builds: from request bodies to guests with reserved CPUs and devices.

mod pinning;

use std::collections::BTreeSet;

use berth_agent_images::InstancesPath;
use berth_agent_journal::{GuestJournal as _, SchedulingFacts};
use berth_model::{ConsumerUuid, ResourceClass};
use berth_virt::guest_spec::{
    AttachedDevice, CpuModel, DeviceOrigin, GuestBoot, GuestDevice, GuestDevices, GuestInterface,
    GuestInterfaces, GuestSpec, HostPath, InterfaceSource, PciManagement,
};
use berth_virt::{
    DeviceCondition, InterfaceOutcome, NetworkFunctionFacts, OfferedHandle, UnfitReason,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::build_bench::{
    ACCELERATOR, Bench, BenchGuests, CARD, GPU, allocated, bench_of_devices, body, build, uuid,
};
use crate::create::tests::pinning::pinned;
use crate::outcome::ReconcileOutcome;

#[tokio::test]
async fn a_build_becomes_a_running_guest_with_cpus_disks_and_interfaces_of_its_own() {
    let bench = Bench::new(2, 16, "0-3,16-19");
    let guests = bench.guests().await;
    let body = build(
        1,
        json!({
            "flavor": {"name": "f", "vcpus": 4, "ram_mb": 1024, "disk_gb": 5, "ephemeral_gb": 1,
                       "extra_specs": {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}},
            "networks": [{"source": {"bridge": "br0"}}, {"source": {"network": "default"}, "mac": "52:54:00:00:00:01"}],
            "kernel": {"kernel": "/boot/guests/vmlinuz", "ramdisk": "/boot/guests/initrd", "command_line": "console=ttyS0"},
            "config_drive": {"metadata": {"role": "web"}, "user_data": "I2Nsb3Vk"},
            "user_id": "u",
        }),
    );
    assert_eq!(guests.build(&body).await.unwrap(), AcceptOutcome::New);
    assert!(matches!(
        guests.reconcile_instance(uuid(1)).await,
        ReconcileOutcome::Settled
    ));
    let spec = bench.running(1);
    assert_eq!(
        spec.topology.pinning().unwrap().dedicated().to_string(),
        "4-7"
    );
    assert_eq!(spec.topology.cells()[0].host_cell, 0);
    let files = spec.disks.root().into_iter().chain(spec.disks.ephemeral());
    let files: Vec<_> = files.map(|disk| disk.path.to_string()).collect();
    let folder = format!("/instances/{}", uuid(1));
    assert_eq!(
        files,
        [format!("{folder}/disk"), format!("{folder}/disk.eph0")]
    );
    assert!(spec.disks.config_drive().is_some());
    assert_eq!(spec.console_log.as_str(), format!("{folder}/console.log"));
    assert!(
        matches!(&spec.boot, GuestBoot::Kernel { kernel, .. } if kernel.as_str() == "/boot/guests/vmlinuz")
    );
    let [derived, given] = spec.interfaces.as_slice() else {
        panic!("two interfaces")
    };
    assert!(matches!(&derived.source, InterfaceSource::Bridge(name) if name.as_str() == "br0"));
    assert!(
        derived.mac.to_string().starts_with("fa:"),
        "{}",
        derived.mac
    );
    assert_eq!(given.mac.to_string(), "52:54:00:00:00:01");
    let described = guests
        .show(uuid(1))
        .await
        .unwrap()
        .request
        .host_placement()
        .scheduling_facts()
        .clone();
    assert_eq!(described.flavor.as_deref(), Some("f"));
    let journaled = serde_json::to_string(&guests.show(uuid(1)).await.unwrap().request).unwrap();
    assert!(
        !journaled.contains("I2Nsb3Vk") && !journaled.contains("web"),
        "{journaled}"
    );
}

#[tokio::test]
async fn the_same_build_again_is_the_same_guest_and_another_is_refused() {
    let bench = Bench::new(1, 8, "0");
    let guests = bench.guests().await;
    let one = build(1, json!({}));
    assert_eq!(guests.build(&one).await.unwrap(), AcceptOutcome::New);
    guests.reconcile_instance(uuid(1)).await;
    assert_eq!(guests.build(&one).await.unwrap(), AcceptOutcome::Same);
    let other = build(1, json!({"name": "other"}));
    let refused = guests.build(&other).await.unwrap_err();
    assert!(
        matches!(
            refused,
            BuildError::Guests(GuestsError::DifferentRequest { .. })
        ),
        "{refused}"
    );
    // After a restart of the agent.
    let guests = bench.guests().await;
    assert_eq!(guests.build(&one).await.unwrap(), AcceptOutcome::Same);
    bench
        .journal()
        .set_goal(uuid(1), &Goal::Destroy)
        .await
        .unwrap();
    let refused = guests.build(&one).await.unwrap_err();
    assert!(
        matches!(
            refused,
            BuildError::Guests(GuestsError::BeingDeleted { .. })
        ),
        "{refused}"
    );
}

fn with_vgpus(bench: &Bench, number: u32, amount: u64) -> GuestBuild {
    let amount_text = amount.to_string();
    build(
        number,
        json!({
            "flavor": {"name": "f", "vcpus": 1, "ram_mb": 16, "extra_specs": {"resources:VGPU": amount_text}},
            "allocations": allocated(bench.provider(GPU), "VGPU", amount),
        }),
    )
}

#[tokio::test]
async fn a_flavors_vgpus_are_made_on_the_gpu_that_is_allocated_and_none_is_given_twice() {
    let bench = bench_of_devices();
    let guests = bench.guests().await;
    let mut seen = BTreeSet::new();
    for (number, amount) in [(1, 1), (2, 2), (3, 1)] {
        guests
            .build(&with_vgpus(&bench, number, amount))
            .await
            .unwrap();
        assert!(matches!(
            guests.reconcile_instance(uuid(number)).await,
            ReconcileOutcome::Settled
        ));
        for attached in bench.running(number).devices.as_slice() {
            assert!(matches!(attached.device, GuestDevice::Mdev { .. }));
            assert!(seen.insert(attached.device));
        }
    }
    assert_eq!(seen.len(), 4);
    for made in bench.made() {
        let source = made.mdev.unwrap();
        assert_eq!(
            (source.parent.to_string(), source.mdev_type),
            ("0000:81:00.0".to_owned(), "nvidia-558".to_owned())
        );
    }
    let refused = guests.build(&with_vgpus(&bench, 4, 1)).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("1 are allocated, and 0 are free"),
        "{refused}"
    );
    guests.delete(uuid(2)).await.unwrap();
    guests.reconcile_instance(uuid(2)).await;
    guests.build(&with_vgpus(&bench, 4, 2)).await.unwrap();
}

#[tokio::test]
async fn functions_go_by_their_allocation_and_the_guest_is_near_them() {
    let bench = bench_of_devices();
    let guests = bench.guests().await;
    let card = bench.provider(CARD);
    let asks = |number: u32, specs: serde_json::Value, allocations: serde_json::Value| {
        let flavor = json!({"name": "f", "vcpus": 1, "ram_mb": 16, "extra_specs": specs});
        build(
            number,
            json!({"flavor": flavor, "allocations": allocations}),
        )
    };
    let near = asks(
        1,
        json!({"pci_passthrough:alias": "nic:1", "hw:cpu_policy": "dedicated"}),
        allocated(card, "CUSTOM_NIC", 1),
    );
    guests.build(&near).await.unwrap();
    guests.reconcile_instance(uuid(1)).await;
    let spec = bench.running(1);
    assert_eq!(
        spec.devices.as_slice()[0].device.to_string(),
        "PCI function 0000:41:02.0"
    );
    assert_eq!(spec.topology.cells()[0].host_cell, 1);
    // An accelerator's allocation yields no device but attracts the guest to its cell. A build without a request for it
    // is refused.
    let mut drawn = asks(
        2,
        json!({"hw:cpu_policy": "dedicated"}),
        allocated(bench.provider(ACCELERATOR), "CUSTOM_NIC", 1),
    );
    let refused = guests.build(&drawn).await.unwrap_err();
    assert_eq!(refused.fault(), BuildFault::Body, "{refused}");
    let expected = "1 of the accelerator service's devices are allocated (CUSTOM_NIC), and accelerator_requests names 0";
    assert!(refused.to_string().contains(expected), "{refused}");
    assert!(guests.show(uuid(2)).await.is_err());
    drawn.accelerator_requests = vec![Uuid::from_u128(77)];
    guests.build(&drawn).await.unwrap();
    let request = guests.show(uuid(2)).await.unwrap().request.clone();
    assert!(request.spec().devices.as_slice().is_empty());
    assert_eq!(request.spec().topology.cells()[0].host_cell, 1);
    for (specs, allocations, expected) in [
        (
            json!({"resources:CUSTOM_NIC": "2"}),
            allocated(card, "CUSTOM_NIC", 1),
            "the flavor asks for 2 of CUSTOM_NIC, 1 are",
        ),
        (
            json!({"pci_passthrough:alias": "nic:1"}),
            json!({}),
            "the flavor asks for 1 of PCI devices, 0 are",
        ),
        (
            json!({"resources1:VGPU": "1"}),
            allocated(Uuid::from_u128(9).into(), "VGPU", 1),
            "no such provider",
        ),
        (
            json!({}),
            allocated(card, "CUSTOM_NIC", 2),
            "2 are allocated, and 1 of the 2 of device 0000:41:00.0 are free",
        ),
        (
            json!({"pci_passthrough:alias": "nic"}),
            json!({}),
            "pci_passthrough:alias",
        ),
        (json!({"resources:VGPU": "-1"}), json!({}), "resources:VGPU"),
    ] {
        let refused = guests
            .build(&asks(3, specs, allocations))
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    // Allocations of other resources on other providers are ignored.
    let elsewhere = asks(
        3,
        json!({}),
        allocated(Uuid::from_u128(9).into(), "DISK_GB", 5),
    );
    guests.build(&elsewhere).await.unwrap();
}

/// A host with a network card on the physical network `storage`. The card has two functions for ports.
fn bench_of_a_network_card() -> Bench {
    let mut bench = bench_of_devices();
    let card = &mut bench.devices[0];
    card.physical_network = Some("storage".to_owned());
    card.class = ResourceClass::SRIOV_NET_VF;
    let functions = card.handles.iter().map(|handle| match handle {
        OfferedHandle::Function(address) => *address,
        OfferedHandle::Mdev { .. } => panic!("{handle:?}"),
    });
    let facts = |number| NetworkFunctionFacts {
        number: Some(number),
        physical_mac: Some("52:54:00:00:00:41".parse().unwrap()),
    };
    card.network_functions = functions.zip((0..).map(facts)).collect();
    bench
}

/// A direct port of a guest on this physical network, not bound yet.
fn direct_port(guest: u32, network: &str) -> Value {
    json!({"source": {"port": {
        "id": Uuid::from_u128(0x88a1 << 96 | u128::from(guest)),
        "address": format!("fa:16:3e:00:00:{guest:02x}"),
        "type": "unbound",
        "vnic_type": "direct",
        "network": {
            "id": Uuid::from_u128(9), "label": "fast", "meta": {"physical_network": network, "mtu": 9000},
        },
    }}})
}

fn with_direct_port(bench: &Bench, number: u32, network: &str, allocated_units: u64) -> GuestBuild {
    let allocations = match allocated_units {
        0 => json!({}),
        units => allocated(bench.provider(CARD), "SRIOV_NET_VF", units),
    };
    build(
        number,
        json!({
            "flavor": {"name": "f", "vcpus": 1, "ram_mb": 16},
            "networks": [direct_port(number, network), {"source": {"bridge": "br0"}}],
            "allocations": allocations,
        }),
    )
}

/// The interface of the port as bound to this function.
fn bound_interface(guest: u32, slot: &str) -> GuestInterface {
    bound_interface_of("direct", guest, slot)
}

/// The interface of the port with this `binding:vnic_type`, as bound to this function.
fn bound_interface_of(vnic_type: &str, guest: u32, slot: &str) -> GuestInterface {
    let mut vif = direct_port(guest, "storage")["source"]["port"].clone();
    vif["vnic_type"] = json!(vnic_type);
    vif["type"] = match vnic_type {
        "direct-physical" => json!("hostdev_physical"),
        _ => json!("hw_veb"),
    };
    vif["profile"] = json!({ "pci_slot": slot });
    vif["details"] = json!({"vlan": "42"});
    let vif = serde_json::from_value(vif).unwrap();
    bound_interfaces(&[vif]).unwrap().remove(0)
}

#[tokio::test]
async fn a_guest_with_a_direct_port_starts_when_the_port_is_bound_to_the_selected_function() {
    let bench = bench_of_a_network_card();
    let guests = bench.guests().await;
    for (number, address) in [(1, "0000:41:02.0"), (2, "0000:41:02.1")] {
        let build = with_direct_port(&bench, number, "storage", 1);
        guests.build(&build).await.unwrap();
        let end = guests.reconcile_instance(uuid(number)).await;
        assert!(matches!(end, ReconcileOutcome::AwaitsPorts), "{end:?}");
        // After a restart of the agent it still waits.
        let guests = bench.guests().await;
        let end = guests.reconcile_instance(uuid(number)).await;
        assert!(matches!(end, ReconcileOutcome::AwaitsPorts), "{end:?}");
        let record = guests.show(uuid(number)).await.unwrap();
        let [selected] = &record.unbound_functions().collect::<Vec<_>>()[..] else {
            panic!("{record:?}")
        };
        assert_eq!(selected.address.to_string(), address);
        assert_eq!((selected.vendor_id, selected.product_id), (0x8086, 0x1572));
        assert_eq!(selected.facts.number, Some(number - 1));
        for (bound, expected) in [
            (
                vec![bound_interface(number, "0000:41:03.0")],
                "is bound to PCI function 0000:41:03.0",
            ),
            (
                vec![bound_interface_of("macvtap", number, address)],
                "is a macvtap port (binding:vnic_type), and this host selected a function for a direct port",
            ),
            (
                vec![bound_interface_of("direct-physical", number, address)],
                "is a direct-physical port (binding:vnic_type), and this host selected a function for a direct port",
            ),
            (Vec::new(), "is missing; expected all"),
            (
                vec![
                    bound_interface(number, address),
                    bound_interface(number + 10, "0000:41:03.0"),
                ],
                "is not one of the guest's ports",
            ),
        ] {
            let refused = guests.bind_ports(uuid(number), &bound).await.unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused}");
        }
        let bound = [bound_interface(number, address)];
        for outcome in [InterfaceOutcome::Changed, InterfaceOutcome::Unchanged] {
            let found = guests.bind_ports(uuid(number), &bound).await.unwrap();
            assert_eq!(found, outcome);
            let end = guests.reconcile_instance(uuid(number)).await;
            assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
        }
        let spec = bench.running(number);
        let [attached] = spec.devices.as_slice() else {
            panic!("{spec:?}")
        };
        let [bridge, direct] = spec.interfaces.as_slice() else {
            panic!("{spec:?}")
        };
        assert!(matches!(bridge.source, InterfaceSource::Bridge(_)));
        let InterfaceSource::Port(port) = &direct.source else {
            panic!("{direct:?}")
        };
        assert_eq!(attached.origin, DeviceOrigin::Port(port.id()));
        assert_eq!(port.network_function().unwrap().to_string(), address);
    }
    let refused = guests
        .build(&with_direct_port(&bench, 3, "storage", 1))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("0 of the 2 of"), "{refused}");
    // A guest that waits gives its function back when it is deleted.
    guests.delete(uuid(2)).await.unwrap();
    guests.reconcile_instance(uuid(2)).await;
    let third = with_direct_port(&bench, 3, "storage", 1);
    guests.build(&third).await.unwrap();
    guests.delete(uuid(3)).await.unwrap();
    let end = guests.reconcile_instance(uuid(3)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    guests
        .build(&with_direct_port(&bench, 4, "storage", 1))
        .await
        .unwrap();
    // A port that came with its guest can be detached, and its function goes to another guest.
    let port = Uuid::from_u128(0x88a1 << 96 | 1);
    let detached = guests.detach_interface(uuid(1), port, None).await;
    assert_eq!(detached.unwrap(), InterfaceOutcome::Changed);
    assert!(bench.running(1).devices.as_slice().is_empty());
    guests
        .build(&with_direct_port(&bench, 5, "storage", 1))
        .await
        .unwrap();
}

/// The parsed port of a request to select a function for it.
fn unbound(port: u32, network: &str) -> DirectPort {
    unbound_of("direct", port, network)
}

/// The same with this `binding:vnic_type`.
fn unbound_of(vnic_type: &str, port: u32, network: &str) -> DirectPort {
    let mut vif = direct_port(port, network)["source"]["port"].clone();
    vif["vnic_type"] = json!(vnic_type);
    unbound_port(&serde_json::from_value(vif).unwrap()).unwrap()
}

#[tokio::test]
async fn an_attached_direct_port_gets_a_free_function_of_the_allocated_card_and_gives_it_back() {
    let bench = bench_of_a_network_card();
    let guests = bench.guests().await;
    let card = bench.provider(CARD);
    for number in [1, 2] {
        let small = json!({"flavor": {"name": "f", "vcpus": 1, "ram_mb": 16}});
        guests.build(&build(number, small)).await.unwrap();
        guests.reconcile_instance(uuid(number)).await;
    }
    let port = unbound(1, "storage");
    for outcome in [InterfaceOutcome::Changed, InterfaceOutcome::Unchanged] {
        let selected = guests.select_function(uuid(1), &port, card).await.unwrap();
        assert_eq!(selected, outcome);
    }
    let record = guests.show(uuid(1)).await.unwrap();
    let address = record.function_of(port.port).unwrap().address.to_string();
    assert_eq!(address, "0000:41:02.0");
    // It is not the guest's device before it is attached, and a start of the guest does not wait for it.
    assert!(
        record
            .present()
            .unwrap()
            .spec()
            .devices
            .as_slice()
            .is_empty()
    );
    assert_eq!((record.awaited_port(), record.open()), (None, None));
    let other = bound_interface(1, "0000:41:02.1");
    let refused = guests
        .attach_interface(uuid(1), other, None)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("this host selected"),
        "{refused}"
    );
    let bound = bound_interface(1, &address);
    let attached = guests.attach_interface(uuid(1), bound.clone(), None).await;
    assert_eq!(attached.unwrap(), InterfaceOutcome::Changed);
    let devices = bench.running(1).devices;
    let origins = devices.as_slice().iter().map(|attached| attached.origin);
    let origins: Vec<_> = origins.collect();
    assert_eq!(origins, [DeviceOrigin::Port(port.port)]);
    assert_eq!(bench.made().len(), 1);
    // The other guest gets the other function, and a third port none.
    for (number, is_free) in [(2, true), (3, false)] {
        let port = unbound(number, "storage");
        let selected = guests.select_function(uuid(2), &port, card).await;
        assert_eq!(selected.is_ok(), is_free, "{selected:?}");
    }
    let elsewhere = guests
        .select_function(uuid(2), &unbound(4, "other"), card)
        .await;
    let refused = elsewhere.unwrap_err().to_string();
    assert!(
        refused.contains("physical network other has none"),
        "{refused}"
    );
    let detached = guests.detach_interface(uuid(1), port.port, None).await;
    assert_eq!(detached.unwrap(), InterfaceOutcome::Changed);
    assert_eq!(bench.made(), []);
    let record = guests.show(uuid(1)).await.unwrap();
    assert_eq!(record.function_of(port.port), None);
    // A selected function without an attachment is given back, too.
    let port = unbound(3, "storage");
    let selected = guests.select_function(uuid(2), &port, card).await;
    assert_eq!(selected.unwrap(), InterfaceOutcome::Changed);
    let _ = guests
        .detach_interface(uuid(2), port.port, None)
        .await
        .unwrap();
    let bound = guests
        .attach_interface(uuid(1), bound, None)
        .await
        .unwrap_err();
    assert!(
        bound.to_string().contains("selected no function"),
        "{bound}"
    );
    guests.delete(uuid(2)).await.unwrap();
    let end = guests.reconcile_instance(uuid(2)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    let claims = bench.journal().guests().await.unwrap();
    assert_eq!(claims.len(), 1);
}

#[tokio::test]
async fn a_port_whose_kind_was_changed_after_its_function_was_selected_is_refused() {
    let bench = bench_of_a_network_card();
    let guests = bench.guests().await;
    let small = json!({"flavor": {"name": "f", "vcpus": 1, "ram_mb": 16}});
    guests.build(&build(1, small)).await.unwrap();
    guests.reconcile_instance(uuid(1)).await;
    let card = bench.provider(CARD);
    for (selected, changed) in [("direct", "macvtap"), ("macvtap", "direct")] {
        let port = unbound_of(selected, 1, "storage");
        for outcome in [InterfaceOutcome::Changed, InterfaceOutcome::Unchanged] {
            let found = guests.select_function(uuid(1), &port, card).await;
            assert_eq!(found.unwrap(), outcome);
        }
        let expected = format!(
            "is a {changed} port (binding:vnic_type), and this host selected a function for a {selected} port"
        );
        let other = unbound_of(changed, 1, "storage");
        let refused = guests.select_function(uuid(1), &other, card).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(&expected), "{refused}");
        let record = guests.show(uuid(1)).await.unwrap();
        let address = record.function_of(port.port).unwrap().address.to_string();
        let bound = bound_interface_of(changed, 1, &address);
        let refused = guests.attach_interface(uuid(1), bound, None).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(&expected), "{refused}");
        let bound = bound_interface_of(selected, 1, &address);
        let attached = guests.attach_interface(uuid(1), bound, None).await;
        assert_eq!(attached.unwrap(), InterfaceOutcome::Changed);
        let detached = guests.detach_interface(uuid(1), port.port, None).await;
        assert_eq!(detached.unwrap(), InterfaceOutcome::Changed);
    }
}

#[tokio::test]
async fn a_complete_request_has_no_network_function_that_is_not_its_device_too() {
    let bench = bench_of_a_network_card();
    let guests = bench.guests().await;
    let plain = berth_agent_journal::samples::request(1, &[]);
    let managed_by = |managed| AttachedDevice {
        device: GuestDevice::Pci {
            address: "0000:41:02.0".parse().unwrap(),
            managed,
        },
        origin: DeviceOrigin::Port(Uuid::from_u128(0x88a1 << 96 | 1)),
    };
    let of_port = managed_by(PciManagement::Hypervisor);
    let of_host = managed_by(PciManagement::HostDriver);
    for (vnic_type, slot, devices, is_accepted) in [
        ("direct", "0000:41:02.0", vec![], false),
        ("direct", "0000:41:02.1", vec![of_port], false),
        ("direct", "0000:41:02.0", vec![of_host], false),
        ("macvtap", "0000:41:02.0", vec![of_port], false),
        ("direct", "0000:41:02.0", vec![of_port], true),
    ] {
        let bound = bound_interface_of(vnic_type, 1, slot);
        let spec = GuestSpec {
            interfaces: GuestInterfaces::new(vec![bound]).unwrap(),
            devices: GuestDevices::new(devices).unwrap(),
            ..plain.spec().clone()
        };
        let request = GuestRequest::new(plain.node().clone(), Vec::new(), spec).unwrap();
        let found = guests.create_complete(&request).await;
        assert_eq!(found.is_ok(), is_accepted, "{found:?}");
    }
}

#[tokio::test]
async fn direct_ports_get_as_many_functions_of_their_physical_network_as_are_allocated() {
    let bench = bench_of_a_network_card();
    let guests = bench.guests().await;
    for (network, units, expected) in [
        (
            "storage",
            0,
            "1 ports need a network function (SRIOV_NET_VF or CUSTOM_SRIOV_NET_PF), and this host has 0",
        ),
        ("storage", 2, "no port of the guest needs another function"),
        ("other", 1, "no port of the guest needs another function"),
    ] {
        let build = with_direct_port(&bench, 1, network, units);
        let refused = guests.build(&build).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    bench.forget_tree();
    let build = with_direct_port(&bench, 1, "storage", 1);
    let refused = guests.build(&build).await.unwrap_err();
    assert_eq!(refused.fault(), BuildFault::Later, "{refused}");
}

/// A build with one port of this kind, with one unit of the card's class.
fn with_port_of_kind(bench: &Bench, vnic_type: &str, more: &[(&str, Value)]) -> GuestBuild {
    let mut port = direct_port(1, "storage");
    let vif = &mut port["source"]["port"];
    vif["vnic_type"] = json!(vnic_type);
    for (key, value) in more {
        vif[*key] = value.clone();
    }
    let class = bench.devices[0].class.to_string();
    build(
        1,
        json!({
            "flavor": {"name": "f", "vcpus": 1, "ram_mb": 16},
            "networks": [port],
            "config_drive": {},
            "allocations": allocated(bench.provider(CARD), &class, 1),
        }),
    )
}

#[tokio::test]
async fn the_function_of_a_macvtap_port_stays_on_its_driver_and_a_trusted_port_needs_the_trait() {
    let mut bench = bench_of_a_network_card();
    let guests = bench.guests().await;
    let trusted = [("profile", json!({"trusted": "true"}))];
    let needy = with_port_of_kind(&bench, "macvtap", &trusted);
    let refused = guests.build(&needy).await.unwrap_err().to_string();
    assert!(
        refused.contains("no port of the guest needs another function"),
        "{refused}"
    );
    let whole = with_port_of_kind(&bench, "direct-physical", &[]);
    let refused = guests.build(&whole).await.unwrap_err().to_string();
    assert!(
        refused.contains("no port of the guest needs another function"),
        "{refused}"
    );
    let traits = &mut bench.devices[0].traits;
    traits.insert(berth_model::Trait::HW_NIC_SRIOV_TRUSTED);
    let guests = bench.guests().await;
    guests.build(&needy).await.unwrap();
    let record = guests.show(uuid(1)).await.unwrap();
    let devices = record.request.spec().devices.as_slice().iter();
    let managed = devices.map(|attached| match attached.device {
        GuestDevice::Pci { managed, .. } => managed,
        other => panic!("{other}"),
    });
    assert_eq!(managed.collect::<Vec<_>>(), [PciManagement::HostDriver]);
}

#[tokio::test]
async fn a_direct_physical_port_gets_a_whole_card_whose_address_is_in_the_config_drive() {
    let card_mac = "52:54:00:00:00:41";
    let drive_of = async |more: &[(&str, Value)]| {
        let mut bench = bench_of_a_network_card();
        let card = &mut bench.devices[0];
        card.class = ResourceClass::CUSTOM_SRIOV_NET_PF;
        card.handles = vec![OfferedHandle::Function(card.address)];
        let facts = NetworkFunctionFacts {
            number: None,
            physical_mac: Some(card_mac.parse().unwrap()),
        };
        card.network_functions = [(card.address, facts)].into();
        let guests = bench.guests().await;
        let whole = with_port_of_kind(&bench, "direct-physical", more);
        guests.build(&whole).await.unwrap();
        let record = guests.show(uuid(1)).await.unwrap();
        let [function] = record.request.host_placement().network_functions() else {
            panic!("{record:?}")
        };
        assert_eq!(
            (function.address, function.facts.number),
            (bench.devices[0].address, None)
        );
        let drive = record.request.disks().config_drive().unwrap().digest();
        // A repeated build is the same one.
        assert_eq!(guests.build(&whole).await.unwrap(), AcceptOutcome::Same);
        drive
    };
    let known = drive_of(&[("address", json!(card_mac))]).await;
    assert_eq!(drive_of(&[]).await, known);
}

#[tokio::test]
async fn a_device_that_is_not_well_is_not_given_out() {
    let mut bench = bench_of_devices();
    bench.devices[0].condition = DeviceCondition::Unfit {
        reason: UnfitReason::Link,
    };
    let guests = bench.guests().await;
    let body = build(
        1,
        json!({"allocations": allocated(bench.provider(CARD), "CUSTOM_NIC", 1)}),
    );
    let refused = guests.build(&body).await.unwrap_err().to_string();
    assert!(
        refused.contains("device 0000:41:00.0 cannot be assigned: its link is slower"),
        "{refused}"
    );
}

#[tokio::test]
async fn without_placements_tree_only_guests_without_devices_are_built() {
    let bench = bench_of_devices();
    let provider = bench.provider(GPU);
    bench.forget_tree();
    let guests = bench.guests().await;
    let body = build(1, json!({"allocations": allocated(provider, "VGPU", 1)}));
    let refused = guests.build(&body).await.unwrap_err();
    assert_eq!(refused.fault(), BuildFault::Later, "{refused}");
    // Neutron's agents report what ports with guarantees hold.
    let of_port = [
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    ];
    for (number, class) in ["VCPU"].into_iter().chain(of_port).enumerate() {
        let body = json!({"allocations": allocated(provider, class, 1)});
        guests.build(&build(1 + number as u32, body)).await.unwrap();
    }
}

#[tokio::test]
async fn a_guest_stays_on_the_cell_whose_provider_it_holds() {
    let bench = bench_of_devices();
    let guests = bench.guests().await;
    for (number, cell) in [(1, 1), (2, 1), (3, 0)] {
        let provider = bench.provider(&format!("compute1_numa{cell}"));
        let mut body = pinned(number, 2);
        body.allocations = serde_json::from_value(allocated(provider, "PCPU", 2)).unwrap();
        guests.build(&body).await.unwrap();
        let request = guests.show(uuid(number)).await.unwrap().request.clone();
        assert_eq!(request.spec().topology.cells()[0].host_cell, cell);
    }
}

/// The placements of a guest with two pinned CPUs and this affinity, with an accelerator on either cell.
async fn near_or_far(
    guests: &BenchGuests,
    bench: &Bench,
    affinity: Option<&str>,
) -> Vec<(Vec<u32>, usize, bool)> {
    let mut build = pinned(9, 2);
    let specs = &mut build.flavor.extra_specs;
    specs.extend(affinity.map(|word| ("hw:pci_numa_affinity_policy".to_owned(), word.to_owned())));
    let on = |name: &str| {
        serde_json::from_value(allocated(bench.provider(name), "CUSTOM_NIC", 1)).unwrap()
    };
    let asked = berth_wire::guest::PlacesAsked {
        build,
        allocations: vec![on("compute1_0000:43:00.0"), on(ACCELERATOR)],
    };
    let places = guests.preview_placements(&asked).await.unwrap().into_iter();
    places
        .map(|place| (place.host_cells, place.far, place.refused.is_some()))
        .collect()
}

#[tokio::test]
async fn a_preview_shows_which_of_several_devices_would_be_near() {
    let mut bench = bench_of_devices();
    let mut other = bench.devices[1].clone();
    other.address = "0000:43:00.0".parse().unwrap();
    other.handles = vec![OfferedHandle::Function(other.address)];
    other.numa_node = Some(0);
    bench.devices.push(other);
    let guests = bench.guests().await;
    let free = [(vec![0], 0, false), (vec![1], 0, false)];
    assert_eq!(near_or_far(&guests, &bench, None).await, free);
    // No other guest fits on cell 0.
    let provider = bench.provider("compute1_numa0");
    let mut full = pinned(1, 12);
    full.allocations = serde_json::from_value(allocated(provider, "PCPU", 12)).unwrap();
    guests.build(&full).await.unwrap();
    for (affinity, first) in [
        (None, (vec![1], 1, false)),
        (Some("preferred"), (vec![1], 1, false)),
        (Some("none"), (vec![1], 0, false)),
        (Some("required"), (vec![], 0, true)),
    ] {
        let places = near_or_far(&guests, &bench, affinity).await;
        assert_eq!(places, [first, (vec![1], 0, false)], "{affinity:?}");
    }
    let none = berth_wire::guest::PlacesAsked {
        build: pinned(9, 2),
        allocations: Vec::new(),
    };
    let refused = guests.preview_placements(&none).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "allocations: 1 to 64 are expected, not 0"
    );
}

#[tokio::test]
async fn resources_that_the_host_lacks_are_refused_before_journaling() {
    let bench = Bench::new(2, 4, "");
    let guests = bench.guests().await;
    let whole = |with: &dyn Fn(&mut berth_virt::guest_spec::GuestSpec), node: &str| {
        let mut spec = berth_agent_journal::samples::spec(1);
        with(&mut spec);
        GuestRequest::new(NodeName::new(node).unwrap(), Vec::new(), spec).unwrap()
    };
    let plain = || berth_virt::guest_spec::GuestTopology::plain(1, 128).unwrap();
    let cell = |host_cell| berth_virt::guest_spec::GuestNumaCell {
        vcpus: "0".parse().unwrap(),
        memory_mib: 128,
        host_cell,
    };
    let far = whole(
        &|spec| spec.topology = plain().on_cells(vec![cell(99)]).unwrap(),
        "compute1",
    );
    let offline = whole(
        &|spec| spec.topology = plain().floating_on("6-9".parse().unwrap()).unwrap(),
        "compute1",
    );
    for (request, fault, words) in [
        // Another host may have the node.
        (whole(&|_| {}, "compute2"), BuildFault::NoRoom, "compute2"),
        (
            far,
            BuildFault::Body,
            "spec.topology.cells: this host has no NUMA cell 99; it has 0, 1",
        ),
        (
            offline,
            BuildFault::Body,
            "spec.topology.cpu_set: this host has no CPU 8-9",
        ),
    ] {
        let refused = guests.create_complete(&request).await.unwrap_err();
        assert_eq!(refused.fault(), fault, "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
    let near = json!({"limits": {"host_cells": [99]}});
    let nonet = json!({"networks": [{"source": {"network": "nonet"}}]});
    for (with, fault, words) in [
        (
            near,
            BuildFault::Body,
            "limits.host_cells: this host has no NUMA cell 99",
        ),
        (
            nonet,
            BuildFault::NoRoom,
            "networks: the network nonet is not available",
        ),
    ] {
        let refused = guests.build(&build(1, with)).await.unwrap_err();
        assert_eq!(refused.fault(), fault, "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
    assert!(guests.list().await.unwrap().is_empty());
    let here = whole(&|_| {}, "compute1");
    for known in [AcceptOutcome::New, AcceptOutcome::Same] {
        assert_eq!(guests.create_complete(&here).await.unwrap(), known);
    }
}

#[tokio::test]
async fn an_agent_without_a_build_context_accepts_only_complete_requests() {
    let bench = Bench::new(1, 4, "");
    let guests = bench.bare_guests().await;
    assert!(matches!(
        guests.build(&build(1, json!({}))).await,
        Err(BuildError::BuildsNotSupported)
    ));
}

#[test]
fn a_record_with_a_host_placement_reads_back() {
    let wanted = berth_virt::WantedDevice {
        device: GuestDevice::Mdev {
            uuid: Uuid::from_u128(7),
        },
        mdev: Some(berth_virt::MdevSource {
            parent: "0000:81:00.0".parse().unwrap(),
            mdev_type: "nvidia-558".to_owned(),
        }),
    };
    let digest = BuildDigest::of(&build(1, json!({})));
    let described = SchedulingFacts {
        flavor: Some("m1.small".to_owned()),
        image_properties: [("os_distro".to_owned(), "debian".to_owned())].into(),
    };
    let picked = HostPlacement::new(Some(digest), "4-7".parse().unwrap(), vec![wanted]);
    let picked = picked.with_scheduling_facts(described);
    let request = berth_agent_journal::samples::request(1, &[]).with_host_placement(picked);
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(
        serde_json::from_str::<GuestRequest>(&text).unwrap(),
        request
    );
}

/// An action on the host's guests, for random sequences.
#[derive(Debug, Clone)]
enum HostAction {
    Build(u32, u32, bool),
    Delete(u32),
    Restart,
}

fn action() -> impl Strategy<Value = HostAction> {
    prop_oneof![
        4 => (0..12_u32, 1..5_u32, any::<bool>()).prop_map(|(n, cpus, alone)| HostAction::Build(n, cpus, alone)),
        2 => (0..12_u32).prop_map(HostAction::Delete),
        1 => Just(HostAction::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_sequence_of_actions_gives_one_cpu_to_two_guests(actions in proptest::collection::vec(action(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new(2, 8, "");
            let mut guests = bench.guests().await;
            for action in actions {
                match action {
                    HostAction::Build(number, vcpus, alone) => {
                        let mut body = pinned(number, vcpus);
                        if alone {
                            body.flavor.extra_specs.insert("hw:cpu_thread_policy".to_owned(), "isolate".to_owned());
                        }
                        let _ = guests.build(&body).await;
                    }
                    HostAction::Delete(number) => {
                        if guests.delete(uuid(number)).await.is_ok() {
                            guests.reconcile_instance(uuid(number)).await;
                        }
                    }
                    HostAction::Restart => {
                        guests.stop().await;
                        guests = bench.guests().await;
                        guests.resume().await.unwrap();
                    }
                }
                let mut holder: std::collections::BTreeMap<u32, ConsumerUuid> = Default::default();
                for record in guests.list().await.unwrap() {
                    for cpu in record.request.reserved_cpus().iter() {
                        let other = holder.insert(cpu, record.request.uuid());
                        assert_eq!(other, None, "CPU {cpu}");
                    }
                }
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_in_any_field_makes_the_reader_panic(
        key in "(name|node|project_id|user_id|power|kernel|image|networks|limits|allocations|flavor|config_drive)",
        text in "\\PC{0,40}|[0-9^,\\-:{}\\[\\]\"]{0,40}",
        number in any::<i64>(),
    ) {
        let bench = Bench::new(1, 2, "");
        let _ = &bench;
        let options = BuildOptions {
            instances: InstancesPath::new(HostPath::new("/instances").unwrap()),
            cpu_model: CpuModel::Default,
            kernel_directories: vec![],
        };
        let value = serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text));
        for value in [value, json!(number)] {
            let body = body(1, json!({ key.clone(): value }));
            if let Ok(build) = serde_json::from_value::<GuestBuild>(body) {
                let _ = ParsedBuild::of(&build, &options);
            }
        }
    }
}
