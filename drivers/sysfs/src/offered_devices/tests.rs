mod condition;

use std::collections::BTreeMap;

use berth_model::{LinkGroupName, ProviderUuid, Trait};
use berth_virt::{DeviceOwner, UnfitReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tree::{CardFixture, TestTree};

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn node() -> NodeName {
    NodeName::new("compute1").unwrap()
}

fn list(entries: &Value) -> AllowList {
    AllowList::read(entries.as_array().unwrap()).unwrap()
}

/// The offered devices of a tree with these lists.
fn offered(tree: &TestTree, compute: &Value, accelerator: &Value) -> OfferedDevices {
    let (compute, accelerator) = (list(compute), list(accelerator));
    let lists = DeviceLists {
        compute: &compute,
        pci: PciInPlacement::Reported,
        accelerator: &accelerator,
    };
    let mut last = LastObservation::default();
    let (seen, _) = tree
        .sysfs()
        .observe_devices(lists, &mut last, |_| false)
        .unwrap();
    offered_devices(&node(), lists, &seen)
}

/// A function that is well.
fn plant(tree: &TestTree, card: CardFixture) {
    let at = format!("devices/pci0000:80/{}/config", card.address);
    let mut header = [0_u8; 64];
    header[..2].copy_from_slice(&card.vendor.to_le_bytes());
    header[2..4].copy_from_slice(&card.device.to_le_bytes());
    let virtuals = card.virtual_functions.map_or(0, |(_, enabled)| enabled);
    let stem = card.address.strip_suffix('0').map(str::to_owned);
    tree.card(card);
    tree.write(&at, header);
    for number in 0..virtuals {
        let stem = stem.as_deref().unwrap();
        let mut header = [0xff_u8; 64];
        header[4] = 0;
        tree.write(
            &format!("devices/pci0000:80/{stem}{}/config", 4 + number),
            header,
        );
    }
}

fn names(traits: &BTreeSet<Trait>) -> Vec<&str> {
    traits.iter().map(Trait::as_str).collect()
}

fn functions(device: &OfferedDevice) -> Vec<String> {
    let handles = device.handles.iter();
    handles
        .map(|handle| match handle {
            OfferedHandle::Function(function) => function.to_string(),
            OfferedHandle::Mdev { uuid, .. } => uuid.to_string(),
        })
        .collect()
}

#[test]
fn an_accelerator_is_called_as_cyborg_calls_it() {
    for (vendor, device, class, kind, resource_class, traits) in [
        (
            0x10de,
            0x1eb8,
            0x03_0200,
            "GPU",
            "PGPU",
            &["CUSTOM_NVIDIA_1EB8"][..],
        ),
        (
            0x1002,
            0x74a1,
            0x12_0000,
            "GPU",
            "PGPU",
            &["CUSTOM_GPU_AMD", "CUSTOM_GPU_PRODUCT_ID_74A1"],
        ),
        (
            0x10ee,
            0x5001,
            0x12_0000,
            "FPGA",
            "FPGA",
            &["CUSTOM_FPGA_PRODUCT_ID_5001", "CUSTOM_FPGA_XILINX"],
        ),
        (
            0x8086,
            0x09c4,
            0x12_0000,
            "FPGA",
            "FPGA",
            &[
                "CUSTOM_FPGA_INTEL",
                "CUSTOM_FPGA_INTEL_PAC_ARRIA10",
                "CUSTOM_FPGA_PRODUCT_ID_09C4",
            ],
        ),
        (
            0x1bd4,
            0x1003,
            0x01_0802,
            "SSD",
            "CUSTOM_SSD",
            &["CUSTOM_SSD_INSPUR", "CUSTOM_SSD_PRODUCT_ID_1003"],
        ),
        (
            0x8086,
            0x158b,
            0x02_0000,
            "NIC",
            "CUSTOM_NIC",
            &["CUSTOM_PF"],
        ),
        (0x8086, 0x37c8, 0x0b_4000, "QAT", "CUSTOM_QAT", &[]),
        (
            0x19e5,
            0xd100,
            0x12_0000,
            "AICHIP",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_HUAWEI", "CUSTOM_PCI_PRODUCT_ID_D100"],
        ),
        (
            0x1da3,
            0x1020,
            0x12_0000,
            "AICHIP",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_HABANA", "CUSTOM_PCI_PRODUCT_ID_1020"],
        ),
        (
            0x17cb,
            0xa100,
            0x12_0000,
            "AICHIP",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_PRODUCT_ID_A100", "CUSTOM_PCI_QUALCOMM"],
        ),
        (
            0x1e52,
            0x401e,
            0x12_0000,
            "AICHIP",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_PRODUCT_ID_401E", "CUSTOM_PCI_TENSTORRENT"],
        ),
        // An accelerator of a vendor that no row names is not called a gate array.
        (
            0x1234,
            0xbeef,
            0x12_0000,
            "PCI",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_PRODUCT_ID_BEEF"],
        ),
        (
            0x1b36,
            0x0005,
            0x00_ff00,
            "PCI",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_PRODUCT_ID_0005"],
        ),
    ] {
        let tree = TestTree::new();
        plant(
            &tree,
            CardFixture {
                vendor,
                device,
                class,
                ..CardFixture::gpu("0000:81:00.0", 1)
            },
        );
        let all = offered(&tree, &json!([]), &json!([{"address": "81:00.0"}]));
        let [one] = &all.devices[..] else {
            panic!("{all:?}")
        };
        assert_eq!(
            (one.device_type.as_str(), one.class.as_str()),
            (kind, resource_class)
        );
        assert_eq!(names(&one.traits), traits);
        assert_eq!(one.provider_name(&node()).as_str(), "compute1_0000:81:00.0");
        assert_eq!(one.condition, DeviceCondition::Fit);
        assert_eq!(functions(one), ["0000:81:00.0"]);
    }
}

#[test]
fn an_operator_says_what_a_device_is_in_its_entry() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            vendor: 0x1234,
            device: 0xbeef,
            class: 0x12_0000,
            ..CardFixture::gpu("0000:81:00.0", 1)
        },
    );
    let entry = json!({"vendor_id": "1234", "device_type": "fpga"});
    let all = offered(&tree, &json!([]), &json!([entry]));
    let one = &all.devices[0];
    let shown = (one.device_type.as_str(), one.class.as_str());
    assert_eq!(shown, ("FPGA", "FPGA"));
    assert_eq!(names(&one.traits), ["CUSTOM_FPGA_PRODUCT_ID_BEEF"]);
    let entry = json!({"vendor_id": "1234", "device_type": "AICHIP", "resource_class": "NPU", "traits": "npu_x"});
    let all = offered(&tree, &json!([]), &json!([entry]));
    let one = &all.devices[0];
    let shown = (one.device_type.as_str(), one.class.as_str());
    assert_eq!(shown, ("AICHIP", "CUSTOM_NPU"));
    assert_eq!(names(&one.traits), ["CUSTOM_NPU_X"]);
    let error = AllowList::read(&[json!({"vendor_id": "1234", "device_type": "TPU"})]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("device_type: one of GPU, FPGA, AICHIP"),
        "{error}"
    );
}

#[test]
fn a_device_has_the_link_group_of_its_entry_whoever_owns_it() {
    let tree = TestTree::new();
    for (group, at) in (1..).zip(["0000:81:00.0", "0000:82:00.0", "0000:83:00.0"]) {
        plant(&tree, CardFixture::gpu(at, group));
    }
    let pci = json!([{"address": "81:00.0", "link_group": "left"}]);
    let accelerators =
        json!([{"address": "82:00.0", "link_group": "right"}, {"address": "83:00.0"}]);
    let all = offered(&tree, &pci, &accelerators);
    let groups = all.devices.iter().map(|one| {
        let group = one.link_group.as_ref();
        (one.address, group.map(LinkGroupName::as_str))
    });
    let expected = [
        ("81:00.0", Some("left")),
        ("82:00.0", Some("right")),
        ("83:00.0", None),
    ];
    let expected = expected.map(|(at, group)| (address(at), group));
    assert_eq!(groups.collect::<BTreeMap<_, _>>(), BTreeMap::from(expected));
}

fn xilinx(address: &'static str, group: u32) -> CardFixture {
    CardFixture {
        vendor: 0x10ee,
        device: 0x5001,
        class: 0x12_0000,
        ..CardFixture::gpu(address, group)
    }
}

#[test]
fn the_functions_of_a_xilinx_card_are_one_device_with_one_unit_as_cyborgs_are() {
    let tree = TestTree::new();
    let cards = ["0000:81:00.1", "0000:81:00.0", "0000:82:00.0"];
    for (group, at) in (1..).zip(cards) {
        plant(&tree, xilinx(at, group));
    }
    let all = offered(&tree, &json!([]), &json!([{"vendor_id": "10ee"}]));
    let [pair, alone] = &all.devices[..] else {
        panic!("{all:?}")
    };
    assert_eq!(pair.address, address("81:00.0"));
    assert_eq!(functions(pair), ["0000:81:00.0", "0000:81:00.1"]);
    assert_eq!((pair.units(), pair.handles_of(1)), (1, 2));
    assert_eq!(
        names(&pair.traits),
        ["CUSTOM_FPGA_PRODUCT_ID_5001", "CUSTOM_FPGA_XILINX"]
    );
    assert_eq!((functions(alone).len(), alone.units()), (1, 1));
    // Nova's are each one.
    let novas = offered(&tree, &json!([{"vendor_id": "10ee"}]), &json!([]));
    assert_eq!(novas.devices.len(), 3);
    // If one function is unhealthy, neither is given out.
    let config = "devices/pci0000:80/0000:81:00.1/config";
    tree.write(config, [0xff_u8; 64]);
    let unhealthy = offered(&tree, &json!([]), &json!([{"vendor_id": "10ee"}]));
    assert_eq!(
        unhealthy.devices[0].condition.reason(),
        Some(UnfitReason::ConfigSpace)
    );
    // Tags apply to both functions.
    let mixed = json!([
        {"address": "81:00.0", "resource_class": "CUSTOM_A"}, {"address": "81:00.1"}
    ]);
    let mixed = offered(&tree, &json!([]), &mixed);
    assert_eq!(mixed.devices, []);
    let [refused] = &mixed.refused[..] else {
        panic!("{mixed:?}")
    };
    assert!(
        refused
            .to_string()
            .contains("functions 0000:81:00.0 and 0000:81:00.1 of one card"),
        "{refused}"
    );
}

#[test]
fn the_virtual_functions_of_an_intel_gate_array_are_units_of_one_device_as_cyborgs_are() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            vendor: 0x8086,
            device: 0x09c4,
            class: 0x12_0000,
            virtual_functions: Some((4, 3)),
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    let parts = ["0000:81:00.4", "0000:81:00.5", "0000:81:00.6"];
    for part in parts {
        tree.write(&format!("devices/pci0000:80/{part}/device"), "0x09c5\n");
    }
    let listed = json!([{"vendor_id": "8086"}]);
    let all = offered(&tree, &json!([]), &listed);
    let [card] = &all.devices[..] else {
        panic!("{all:?}")
    };
    assert_eq!(card.address, address("81:00.0"));
    assert_eq!(functions(card), parts);
    assert_eq!((card.units(), card.handles_of(1)), (3, 1));
    assert_eq!(card.class, ResourceClass::FPGA);
    assert_eq!(
        names(&card.traits),
        [
            "CUSTOM_FPGA_INTEL",
            "CUSTOM_FPGA_INTEL_PAC_ARRIA10",
            "CUSTOM_FPGA_PRODUCT_ID_09C5"
        ]
    );
    // An unhealthy one is set aside; the others are given out.
    let other = format!("devices/pci0000:80/{}/config", parts[1]);
    tree.write(&other, [0xff_u8; 64]);
    let unhealthy = offered(&tree, &json!([]), &listed);
    let card = &unhealthy.devices[0];
    assert_eq!(card.condition, DeviceCondition::Fit);
    let aside: Vec<_> = card.unfit_handles.iter().collect();
    assert_eq!(aside, [&OfferedHandle::Function(address("81:00.5"))]);
    // Tags apply to all functions.
    let mixed = json!([{"address": parts[0], "traits": "gold"}, {"product_id": "09c5"}]);
    let mixed = offered(&tree, &json!([]), &mixed);
    assert_eq!(mixed.devices, []);
    let [refused] = &mixed.refused[..] else {
        panic!("{mixed:?}")
    };
    assert_eq!(refused.option(), "[accelerators] device_spec");
    assert!(
        refused.to_string().contains(&format!(
            "functions {} and {} of one card",
            parts[0], parts[1]
        )),
        "{refused}"
    );
}

#[test]
fn tags_say_another_class_and_other_traits() {
    let tree = TestTree::new();
    plant(&tree, CardFixture::gpu("0000:81:00.0", 1));
    let entry = json!([{"address": "81:00.0", "resource_class": "CUSTOM_PCI", "traits": "gold"}]);
    for (compute, accelerator) in [(&entry, &json!([])), (&json!([]), &entry)] {
        let all = offered(&tree, compute, accelerator);
        assert_eq!(all.devices[0].class.as_str(), "CUSTOM_PCI");
        assert_eq!(names(&all.devices[0].traits), ["CUSTOM_GOLD"]);
    }
}

#[test]
fn novas_device_is_the_card_and_cyborgs_each_virtual_function() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            vendor: 0x8086,
            device: 0x10c9,
            class: 0x02_0000,
            virtual_functions: Some((4, 2)),
            numa_node: 1,
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    let virtuals =
        json!([{"address": {"domain": ".*", "bus": "81", "slot": "00", "function": "[45]"}}]);
    let nova = offered(&tree, &virtuals, &json!([]));
    let [card] = &nova.devices[..] else {
        panic!("{nova:?}")
    };
    assert_eq!(card.address, address("81:00.0"));
    assert_eq!(card.class.as_str(), "CUSTOM_PCI_8086_10C9");
    assert_eq!(functions(card), ["0000:81:00.4", "0000:81:00.5"]);
    assert_eq!(card.numa_node, Some(1));
    let cyborg = offered(&tree, &json!([]), &json!([{"vendor_id": "8086"}]));
    let all: Vec<_> = cyborg
        .devices
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    assert_eq!(
        all,
        ["0000:81:00.4", "0000:81:00.5"],
        "{:?}",
        cyborg.refused
    );
    assert_eq!(names(&cyborg.devices[0].traits), ["CUSTOM_VF"]);
    let made = json!([{"address": "0000:81:00.0", "num_vfs": 2}]);
    let nova = offered(&tree, &made, &json!([]));
    assert_eq!(nova.refused, []);
    assert_eq!(
        functions(&nova.devices[0]),
        ["0000:81:00.4", "0000:81:00.5"]
    );
}

#[test]
fn what_breaks_a_rule_is_left_out_and_reported() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            vendor: 0x8086,
            device: 0x10c9,
            class: 0x02_0000,
            virtual_functions: Some((4, 2)),
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    plant(&tree, CardFixture::gpu("0000:82:00.0", 8));
    let none = json!([]);
    for (compute, accelerator, expected) in [
        (
            json!([{"address": "82:00.0"}]),
            json!([{"vendor_id": "8086"}, {"vendor_id": "10de"}]),
            "entry 1 of [pci] device_spec and by entry 2 of [accelerators]",
        ),
        (
            json!([{"address": "0000:81:00.0"}]),
            none.clone(),
            "offered whole, and so are its virtual functions (0000:81:00.4, 0000:81:00.5)",
        ),
        (
            json!([{"address": {"function": "0", "bus": "81"}}]),
            json!([{"address": "81:00.4"}]),
            "offered whole",
        ),
        (
            json!([{"address": "81:00.4"}, {"address": "81:00.5", "traits": "gold"}]),
            none.clone(),
            "different resource classes, traits, physical networks or link groups",
        ),
        (
            json!([{"address": "81:00.4"}, {"address": "81:00.5", "resource_class": "gold"}]),
            none.clone(),
            "different resource classes, traits, physical networks or link groups",
        ),
        (
            json!([{"address": "81:00.4"}, {"address": "81:00.5", "link_group": "left"}]),
            none.clone(),
            "physical networks or link groups",
        ),
        (
            json!([{"address": "81:00.4", "one_time_use": true}]),
            none.clone(),
            "only whole functions",
        ),
        (json!([{"devname": "eth9"}]), none, "devname"),
    ] {
        let all = offered(&tree, &compute, &accelerator);
        let [refused, ..] = &all.refused[..] else {
            panic!("{compute} {accelerator}: {all:?}")
        };
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(
            all.devices.iter().all(|one| {
                one.owner == DeviceOwner::Accelerator
                    || one.address == address("81:00.0") && functions(one) == ["0000:81:00.0"]
            }),
            "{all:?}"
        );
    }
}

#[test]
fn an_accelerator_is_on_the_network_that_its_entry_says() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            class: 0x02_0000,
            virtual_functions: Some((2, 2)),
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    for (entry, network) in [
        (json!({"physical_network": " physnet-1"}), Some("physnet-1")),
        (json!({"physical_network": ""}), None),
        (json!({}), None),
    ] {
        let mut entry = entry;
        entry["address"] = json!("81:00.*");
        let all = offered(&tree, &json!([]), &json!([entry]));
        assert_eq!(all.devices.len(), 2, "{all:?}");
        for one in &all.devices {
            assert_eq!(one.physical_network.as_deref(), network);
            let of_network = names(&one.traits).contains(&"CUSTOM_PHYSNET_1");
            assert_eq!(of_network, network.is_some(), "{:?}", one.traits);
        }
    }
}

#[test]
fn devices_for_ports_of_networks_are_not_reported_and_nothing_is_while_reporting_is_off() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            class: 0x02_0000,
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    let all = offered(
        &tree,
        &json!([{"address": "81:00.0", "physical_network": "physnet1"}]),
        &json!([]),
    );
    assert_eq!(all, OfferedDevices::default());
    let compute = list(&json!([{"address": "81:00.0"}]));
    let off = DeviceLists {
        compute: &compute,
        pci: PciInPlacement::NotReported,
        accelerator: &AllowList::default(),
    };
    let (seen, _) = tree
        .sysfs()
        .observe_devices(off, &mut LastObservation::default(), |_| false)
        .unwrap();
    assert_eq!(
        offered_devices(&node(), off, &seen),
        OfferedDevices::default()
    );
}

#[test]
fn virtual_functions_of_a_physical_network_are_for_ports_and_count_on_their_card() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            class: 0x02_0000,
            virtual_functions: Some((4, 2)),
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    let address = "devices/pci0000:80/0000:81:00.0/net/ens5/address";
    tree.write(address, "52:54:00:00:00:81\n");
    let on = |network: &str| json!({"address": "81:00.4", "physical_network": network});
    let other = |more: Value| {
        let mut entry = json!({"address": "81:00.5"});
        let entry_of = entry.as_object_mut().unwrap();
        entry_of.extend(more.as_object().unwrap().clone());
        entry
    };
    let both = json!([
        on("storage-1"),
        other(json!({"physical_network": "storage-1", "traits": "fast"}))
    ]);
    let refused = offered(&tree, &both, &json!([])).refused;
    assert!(
        matches!(refused[..], [DeviceRefusal::MixedCard { .. }]),
        "{refused:?}"
    );
    let both = json!([
        on("storage-1"),
        other(json!({"physical_network": "storage-1"}))
    ]);
    let all = offered(&tree, &both, &json!([]));
    assert_eq!(all.refused, []);
    let [card] = &all.devices[..] else {
        panic!("{all:?}")
    };
    assert_eq!(card.address.to_string(), "0000:81:00.0");
    assert_eq!(card.class, ResourceClass::SRIOV_NET_VF);
    assert_eq!(names(&card.traits), ["CUSTOM_PHYSNET_STORAGE_1"]);
    assert_eq!(card.physical_network.as_deref(), Some("storage-1"));
    assert!(card.is_for_ports());
    let functions: Vec<_> = card
        .network_functions
        .iter()
        .map(|(address, facts)| {
            let mac = facts.physical_mac.map(|mac| mac.to_string());
            (address.to_string(), facts.number, mac.unwrap_or_default())
        })
        .collect();
    let mac = "52:54:00:00:00:81".to_owned();
    assert_eq!(
        functions,
        [
            ("0000:81:00.4".to_owned(), Some(0), mac.clone()),
            ("0000:81:00.5".to_owned(), Some(1), mac),
        ]
    );
    for more in [json!({}), json!({"physical_network": "storage-2"})] {
        let refused = offered(&tree, &json!([on("storage-1"), other(more)]), &json!([])).refused;
        assert!(
            matches!(refused[..], [DeviceRefusal::MixedCard { .. }]),
            "{refused:?}"
        );
    }
    let own_class = other(json!({"physical_network": "storage-1", "resource_class": "CUSTOM_VF"}));
    let refused = offered(&tree, &json!([own_class]), &json!([])).refused;
    let [refused] = &refused[..] else {
        panic!("{refused:?}")
    };
    assert!(
        refused.to_string().contains("omit resource_class"),
        "{refused}"
    );
    // A function for tunnelled networks needs a switch on the card.
    let tunnelled = offered(&tree, &json!([on("")]), &json!([]));
    assert_eq!(tunnelled, OfferedDevices::default());
    // Without the interface of the physical function, its address is unknown.
    tree.remove(address);
    let all = offered(&tree, &both, &json!([]));
    assert!(
        all.devices[0]
            .network_functions
            .values()
            .all(|facts| facts.physical_mac.is_none())
    );
}

#[test]
fn functions_that_may_be_trusted_have_a_trait_which_all_of_a_card_have_or_none() {
    let tree = TestTree::new();
    plant(
        &tree,
        CardFixture {
            class: 0x02_0000,
            virtual_functions: Some((4, 2)),
            ..CardFixture::gpu("0000:81:00.0", 7)
        },
    );
    let on = |address: &str, trusted: bool| json!({"address": address, "physical_network": "storage", "trusted": trusted.to_string()});
    let all = offered(
        &tree,
        &json!([on("81:00.4", true), on("81:00.5", true)]),
        &json!([]),
    );
    let expected = ["CUSTOM_PHYSNET_STORAGE", "HW_NIC_SRIOV_TRUSTED"];
    assert_eq!(names(&all.devices[0].traits), expected);
    let mixed = offered(
        &tree,
        &json!([on("81:00.4", true), on("81:00.5", false)]),
        &json!([]),
    );
    assert!(
        matches!(mixed.refused[..], [DeviceRefusal::MixedCard { .. }]),
        "{mixed:?}"
    );
}

#[test]
fn a_card_without_virtual_functions_is_for_ports_as_a_whole_with_its_own_address() {
    let tree = TestTree::new();
    let card = |virtual_functions| CardFixture {
        class: 0x02_0000,
        virtual_functions,
        ..CardFixture::gpu("0000:81:00.0", 7)
    };
    plant(&tree, card(Some((4, 0))));
    tree.write(
        "devices/pci0000:80/0000:81:00.0/net/ens5/address",
        "52:54:00:00:00:81\n",
    );
    let entry = json!([{"address": "81:00.0", "physical_network": "storage", "trusted": "true"}]);
    let all = offered(&tree, &entry, &json!([]));
    assert_eq!(all.refused, []);
    let [whole] = &all.devices[..] else {
        panic!("{all:?}")
    };
    assert!(whole.is_for_ports());
    assert_eq!(whole.class, ResourceClass::CUSTOM_SRIOV_NET_PF);
    assert_eq!(names(&whole.traits), ["CUSTOM_PHYSNET_STORAGE"]);
    let facts = &whole.network_functions[&whole.address];
    assert_eq!(facts.number, None);
    assert_eq!(facts.physical_mac.unwrap().to_string(), "52:54:00:00:00:81");
    // With virtual functions it is offered by them, or not at all.
    let tree = TestTree::new();
    plant(&tree, card(Some((4, 2))));
    let alone =
        json!([{"address": "81:00.0", "product_id": "20b7", "physical_network": "storage"}]);
    let offered = offered(&tree, &alone, &json!([]));
    assert!(
        offered
            .devices
            .iter()
            .all(|device| device.class != whole.class),
        "{offered:?}"
    );
}

#[test]
fn a_graphics_cards_other_functions_go_with_it() {
    let tree = TestTree::new();
    plant(&tree, CardFixture::gpu("0000:81:00.0", 12));
    plant(
        &tree,
        CardFixture {
            class: 0x04_0300,
            ..CardFixture::gpu("0000:81:00.1", 12)
        },
    );
    let all = offered(&tree, &json!([]), &json!([{"address": "81:00.*"}]));
    assert_eq!(all.devices.len(), 1);
    assert_eq!(all.devices[0].condition, DeviceCondition::Fit);
    let alone = offered(&tree, &json!([]), &json!([{"address": "81:00.0"}]));
    let unfit = DeviceCondition::Unfit {
        reason: UnfitReason::IommuGroup,
    };
    assert_eq!(alone.devices[0].condition, unfit);
}

fn mdevs(existing: &[Uuid], total: u64) -> SeenMdevs {
    SeenMdevs {
        mdev_type: "nvidia-223".to_owned(),
        type_name: Some("GRID T4-2B".to_owned()),
        class: ResourceClass::VGPU,
        existing: existing.iter().copied().collect(),
        total,
    }
}

fn parted(mdevs: SeenMdevs) -> OfferedDevice {
    let tree = TestTree::new();
    plant(&tree, CardFixture::gpu("0000:81:00.0", 1));
    let accelerator = list(&json!([{"vendor_id": "10de"}]));
    let lists = DeviceLists {
        compute: &AllowList::default(),
        pci: PciInPlacement::Reported,
        accelerator: &accelerator,
    };
    let (mut seen, _) = tree
        .sysfs()
        .observe_devices(lists, &mut LastObservation::default(), |_| true)
        .unwrap();
    seen[0].mdevs = Some(mdevs);
    offered_devices(&node(), lists, &seen).devices.remove(0)
}

#[test]
fn a_card_that_is_parted_offers_mediated_devices_of_cyborgs_name() {
    let card = parted(mdevs(&[], 3));
    assert_eq!(card.class, ResourceClass::VGPU);
    assert_eq!(names(&card.traits), ["CUSTOM_NVIDIA_1EB8_T4_2B"]);
    assert_eq!(card.handles.len(), 3);
}

proptest! {
    #[test]
    fn handles_stay_what_they_are_while_devices_come_and_go(
        total in 1..12u64, made in proptest::collection::btree_set(0..12u64, 0..12)
    ) {
        let provider = ProviderUuid::of_deployable(&node().deployable_name(address("81:00.0")));
        let made: Vec<_> = made.into_iter().filter(|number| *number < total).map(|number| OfferedHandle::mdev_uuid(provider, number)).collect();
        prop_assert_eq!(parted(mdevs(&made, total)).handles, parted(mdevs(&[], total)).handles);
    }

    #[test]
    fn no_part_is_offered_twice_whatever_the_lists_say(
        compute in a_list(), accelerator in a_list(), virtuals in 0..4u32
    ) {
        let tree = TestTree::new();
        plant(&tree, CardFixture { virtual_functions: Some((4, virtuals)), ..CardFixture::gpu("0000:81:00.0", 1) });
        plant(&tree, CardFixture { class: 0x02_0000, ..CardFixture::gpu("0000:82:00.0", 2) });
        let all = offered(&tree, &compute, &accelerator);
        let mut parts = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for device in &all.devices {
            prop_assert!(addresses.insert(device.address), "{} twice", device.address);
            prop_assert!(!device.handles.is_empty());
            for part in &device.handles {
                prop_assert!(parts.insert(part.clone()), "{part:?} twice");
            }
        }
    }
}

fn a_list() -> impl Strategy<Value = Value> {
    let entry = prop_oneof![
        Just(json!({"address": "0000:81:00.0"})),
        Just(json!({"address": "81:00.*"})),
        Just(json!({"address": "81:00.4"})),
        Just(json!({"address": {"bus": "81", "function": "0"}})),
        Just(json!({"address": "82:00.0", "traits": "a"})),
        Just(json!({"vendor_id": "10de", "resource_class": "b"})),
        Just(json!({"address": "0000:81:00.0", "num_vfs": 2})),
    ];
    proptest::collection::vec(entry, 0..3).prop_map(Value::Array)
}

#[test]
fn what_two_lists_mean_of_this_machine_is_refused_before_an_agent_is_started() {
    let tree = TestTree::new();
    plant(&tree, CardFixture::gpu("0000:81:00.0", 1));
    plant(&tree, CardFixture::gpu("0000:82:00.0", 2));
    let refused = |compute: Value, accelerator: Value| {
        let lists = [&compute, &accelerator].map(|list| AllowList::read(list.as_array().unwrap()));
        let [compute, accelerator] = lists.map(Result::unwrap);
        let lists = DeviceLists {
            compute: &compute,
            pci: PciInPlacement::Reported,
            accelerator: &accelerator,
        };
        let node = NodeName::new("compute1").unwrap();
        tree.sysfs().refused_devices(&node, lists).unwrap()
    };
    // The entries alone do not show it: this vendor's cards may be elsewhere.
    let both = refused(
        json!([{"vendor_id": "10de"}]),
        json!([{"address": "82:00.0"}]),
    );
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(
        both[0]
            .to_string()
            .contains("0000:82:00.0 is meant by entry 1")
    );
    let apart = refused(
        json!([{"address": "81:00.0"}]),
        json!([{"address": "82:00.0"}]),
    );
    assert_eq!(apart, []);
}
