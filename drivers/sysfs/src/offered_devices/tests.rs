use berth_virt::UnfitReason;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tree::{Card, Tree};

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn node() -> NodeName {
    NodeName::new("compute1").unwrap()
}

fn list(entries: &Value) -> AllowList {
    AllowList::read(entries.as_array().unwrap()).unwrap()
}

/// What is offered of a tree under these lists.
fn offered(tree: &Tree, compute: &Value, accelerator: &Value) -> OfferedDevices {
    let (compute, accelerator) = (list(compute), list(accelerator));
    let lists = DeviceLists {
        compute: &compute,
        pci: PciInPlacement::Reported,
        accelerator: &accelerator,
    };
    let mut last = LastLook::default();
    let (seen, _) = tree
        .sysfs()
        .look_at_devices(lists, &mut last, |_| false)
        .unwrap();
    offered_devices(&node(), lists, &seen)
}

/// A function that is well.
fn plant(tree: &Tree, card: Card) {
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
            0x1b36,
            0x0005,
            0x00_ff00,
            "PCI",
            "CUSTOM_PCI",
            &["CUSTOM_PCI_PRODUCT_ID_0005"],
        ),
    ] {
        let tree = Tree::new();
        plant(
            &tree,
            Card {
                vendor,
                device,
                class,
                ..Card::gpu("0000:81:00.0", 1)
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

fn xilinx(address: &'static str, group: u32) -> Card {
    Card {
        vendor: 0x10ee,
        device: 0x5001,
        class: 0x12_0000,
        ..Card::gpu(address, group)
    }
}

#[test]
fn the_functions_of_a_xilinx_card_are_one_device_with_one_unit_as_cyborgs_are() {
    let tree = Tree::new();
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
    // One that is not well is not given out, and its other function neither.
    let config = "devices/pci0000:80/0000:81:00.1/config";
    tree.write(config, [0xff_u8; 64]);
    let sick = offered(&tree, &json!([]), &json!([{"vendor_id": "10ee"}]));
    assert_eq!(
        sick.devices[0].condition.reason(),
        Some(UnfitReason::ConfigSpace)
    );
    // What an operator says of them is said of both.
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
fn tags_say_another_class_and_other_traits() {
    let tree = Tree::new();
    plant(&tree, Card::gpu("0000:81:00.0", 1));
    let entry = json!([{"address": "81:00.0", "resource_class": "CUSTOM_PCI", "traits": "gold"}]);
    for (compute, accelerator) in [(&entry, &json!([])), (&json!([]), &entry)] {
        let all = offered(&tree, compute, accelerator);
        assert_eq!(all.devices[0].class.as_str(), "CUSTOM_PCI");
        assert_eq!(names(&all.devices[0].traits), ["CUSTOM_GOLD"]);
    }
}

#[test]
fn novas_device_is_the_card_and_cyborgs_each_virtual_function() {
    let tree = Tree::new();
    plant(
        &tree,
        Card {
            vendor: 0x8086,
            device: 0x10c9,
            class: 0x02_0000,
            virtual_functions: Some((4, 2)),
            numa_node: 1,
            ..Card::gpu("0000:81:00.0", 7)
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
fn what_breaks_a_rule_is_left_out_and_told() {
    let tree = Tree::new();
    plant(
        &tree,
        Card {
            vendor: 0x8086,
            device: 0x10c9,
            class: 0x02_0000,
            virtual_functions: Some((4, 2)),
            ..Card::gpu("0000:81:00.0", 7)
        },
    );
    plant(&tree, Card::gpu("0000:82:00.0", 8));
    let none = json!([]);
    for (compute, accelerator, told) in [
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
            "different resource classes or traits",
        ),
        (
            json!([{"address": "81:00.4"}, {"address": "81:00.5", "resource_class": "gold"}]),
            none.clone(),
            "different resource classes or traits",
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
        assert!(refused.to_string().contains(told), "{refused}");
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
    let tree = Tree::new();
    plant(
        &tree,
        Card {
            class: 0x02_0000,
            virtual_functions: Some((2, 2)),
            ..Card::gpu("0000:81:00.0", 7)
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
    let tree = Tree::new();
    plant(
        &tree,
        Card {
            class: 0x02_0000,
            ..Card::gpu("0000:81:00.0", 7)
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
        .look_at_devices(off, &mut LastLook::default(), |_| false)
        .unwrap();
    assert_eq!(
        offered_devices(&node(), off, &seen),
        OfferedDevices::default()
    );
}

#[test]
fn a_graphics_cards_other_functions_go_with_it() {
    let tree = Tree::new();
    plant(&tree, Card::gpu("0000:81:00.0", 12));
    plant(
        &tree,
        Card {
            class: 0x04_0300,
            ..Card::gpu("0000:81:00.1", 12)
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
    let tree = Tree::new();
    plant(&tree, Card::gpu("0000:81:00.0", 1));
    let accelerator = list(&json!([{"vendor_id": "10de"}]));
    let lists = DeviceLists {
        compute: &AllowList::default(),
        pci: PciInPlacement::Reported,
        accelerator: &accelerator,
    };
    let (mut seen, _) = tree
        .sysfs()
        .look_at_devices(lists, &mut LastLook::default(), |_| true)
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
        let tree = Tree::new();
        plant(&tree, Card { virtual_functions: Some((4, virtuals)), ..Card::gpu("0000:81:00.0", 1) });
        plant(&tree, Card { class: 0x02_0000, ..Card::gpu("0000:82:00.0", 2) });
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

/// A machine of one card, looked at again and again.
struct Ward {
    tree: Tree,
    list: AllowList,
    last: LastLook,
    kept: BTreeMap<PciAddress, Baseline>,
}

impl Ward {
    fn of(card: Card) -> Self {
        let tree = Tree::new();
        plant(&tree, card);
        Self {
            tree,
            list: list(&json!([{"address": "81:00.0"}])),
            last: LastLook::default(),
            kept: BTreeMap::new(),
        }
    }

    fn write(&self, file: &str, text: &str) {
        self.tree
            .write(&format!("devices/pci0000:80/0000:81:00.0/{file}"), text);
    }

    fn look(&mut self) -> (Option<UnfitReason>, bool) {
        let lists = DeviceLists {
            compute: &AllowList::default(),
            pci: PciInPlacement::Reported,
            accelerator: &self.list,
        };
        let (seen, news) = self
            .tree
            .sysfs()
            .look_at_devices(lists, &mut self.last, |_| false)
            .unwrap();
        (seen[0].condition.reason(), !news.is_empty())
    }
}

#[test]
fn a_device_that_falls_ill_says_why_once_and_a_reset_is_the_way_back() {
    let errors = |count: u32| format!("RxErr {count}\nTOTAL_ERR_NONFATAL {count}\n");
    let mut ward = Ward::of(ssd());
    ward.write("aer_dev_nonfatal", &errors(3));
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.look(), (None, false));
    ward.write("current_link_width", "8\n");
    assert_eq!(ward.look(), (Some(UnfitReason::Link), true));
    assert_eq!(ward.look(), (Some(UnfitReason::Link), false));
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.look(), (None, true));
    ward.write("aer_dev_nonfatal", &errors(4));
    assert_eq!(ward.look(), (Some(UnfitReason::Aer), true));
    ward.last.forget(address("81:00.0"));
    assert_eq!(ward.look(), (None, true));
    ward.write("config", &"\u{7f}".repeat(3));
    assert_eq!(ward.look().0, Some(UnfitReason::ConfigSpace));
}

/// Stops, as a process does, and goes on in the next one.
fn restarted(mut ward: Ward) -> Ward {
    let mut now = None;
    let write = |baselines: &BTreeMap<_, _>| {
        now = Some(baselines.clone());
        Ok::<(), ()>(())
    };
    ward.last.keeps_baselines();
    ward.last.keep_baselines(write).unwrap();
    // What did not change is still there.
    ward.kept = now.unwrap_or(ward.kept);
    ward.last = LastLook::default();
    let kept = ward.kept.clone();
    ward.last.recall(|| Ok::<_, ()>(kept)).unwrap();
    ward
}

fn ssd() -> Card {
    Card {
        class: 0x01_0802,
        ..Card::gpu("0000:81:00.0", 1)
    }
}

#[test]
fn a_restart_forgives_nothing_and_a_reset_does() {
    let errors = |count: u32| format!("TOTAL_ERR_FATAL {count}\n");
    for (file, well, ill, reason) in [
        (
            "current_link_width",
            "16\n".to_owned(),
            "8\n".to_owned(),
            UnfitReason::Link,
        ),
        ("aer_dev_fatal", errors(3), errors(4), UnfitReason::Aer),
    ] {
        let mut ward = Ward::of(ssd());
        ward.write("current_link_speed", "16.0 GT/s PCIe\n");
        ward.write("current_link_width", "16\n");
        ward.write(file, &well);
        assert_eq!(ward.look().0, None);
        ward.write(file, &ill);
        let mut ward = restarted(ward);
        assert_eq!(ward.look(), (Some(reason), true));
        let mut ward = restarted(ward);
        assert_eq!(ward.look().0, Some(reason));
        ward.last.forget(address("81:00.0"));
        assert_eq!(ward.look().0, None);
        assert_eq!(restarted(ward).look().0, None);
    }
}

#[test]
fn errors_after_counters_began_anew_are_not_taken_for_the_old_ones() {
    let errors = |count: u32| format!("TOTAL_ERR_FATAL {count}\n");
    let mut ward = Ward::of(ssd());
    ward.write("aer_dev_fatal", &errors(3));
    assert_eq!(ward.look().0, None);
    // The host was started anew.
    ward.write("aer_dev_fatal", &errors(0));
    let mut ward = restarted(ward);
    assert_eq!(ward.look().0, None);
    ward.write("aer_dev_fatal", &errors(3));
    assert_eq!(ward.look().0, Some(UnfitReason::Aer));
}

#[test]
fn another_card_in_the_slot_is_not_compared_with_the_one_that_was_there() {
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.look().0, None);
    let mut ward = restarted(ward);
    ward.write("current_link_width", "4\n");
    ward.write("device", "0x1eb9\n");
    let mut header = [0_u8; 64];
    header[..4].copy_from_slice(&[0xde, 0x10, 0xb9, 0x1e]);
    let config = "devices/pci0000:80/0000:81:00.0/config";
    ward.tree.write(config, header);
    assert_eq!(ward.look().0, None);
}

#[test]
fn a_card_that_came_up_narrower_than_it_and_its_port_can_is_unfit_until_a_reset_says_that_it_is_all_there_is()
 {
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "1\n");
    ward.write("max_link_width", "16\n");
    // A port that says nothing is no reason to say anything.
    assert_eq!(ward.look().0, None);
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "2.5 GT/s PCIe\n");
    ward.write("current_link_width", "1\n");
    ward.write("max_link_width", "16\n");
    ward.write("max_link_speed", "16.0 GT/s PCIe\n");
    ward.tree.write("devices/pci0000:80/max_link_width", "8\n");
    assert_eq!(ward.look(), (Some(UnfitReason::Link), true));
    // A slow link may be an idle one.
    ward.write("current_link_width", "8\n");
    assert_eq!(ward.look(), (None, true));
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "1\n");
    ward.write("max_link_width", "16\n");
    ward.tree.write("devices/pci0000:80/max_link_width", "8\n");
    assert_eq!(ward.look().0, Some(UnfitReason::Link));
    let mut ward = restarted(ward);
    assert_eq!(ward.look().0, Some(UnfitReason::Link));
    ward.last.forget(address("81:00.0"));
    assert_eq!(ward.look().0, None);
    let mut ward = restarted(ward);
    assert_eq!(ward.look().0, None);
    ward.write("current_link_speed", "8.0 GT/s PCIe\n");
    assert_eq!(ward.look().0, Some(UnfitReason::Link));
}

#[test]
fn a_graphics_card_that_idles_on_a_slow_link_is_well() {
    let mut ward = Ward::of(Card::gpu("0000:81:00.0", 1));
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.look().0, None);
    ward.write("current_link_speed", "2.5 GT/s PCIe\n");
    assert_eq!(ward.look().0, None);
    ward.write("current_link_width", "4\n");
    assert_eq!(ward.look().0, Some(UnfitReason::Link));
}

#[test]
fn a_driver_that_hands_it_to_guests_is_no_other_driver() {
    let mut ward = Ward::of(Card {
        driver: Some("nvme"),
        ..Card::gpu("0000:81:00.0", 1)
    });
    let bind = |ward: &Ward, driver: Option<&str>| {
        let link = "devices/pci0000:80/0000:81:00.0/driver";
        if ward.tree.path(link).is_symlink() {
            ward.tree.remove(link);
        }
        if let Some(driver) = driver {
            let of = format!("bus/pci/drivers/{driver}");
            ward.tree.write(&format!("{of}/bind"), "");
            ward.tree.link(link, &ward.tree.path(&of));
        }
    };
    for (driver, unfit) in [
        (Some("nvme"), None),
        (None, None),
        (Some("vfio-pci"), None),
        (Some("nvme"), None),
        (Some("other"), Some(UnfitReason::Driver)),
        (Some("nvme"), None),
    ] {
        bind(&ward, driver);
        assert_eq!(ward.look().0, unfit, "{driver:?}");
    }
}

#[test]
fn what_two_lists_mean_of_this_machine_is_refused_before_an_agent_is_started() {
    let tree = Tree::new();
    plant(&tree, Card::gpu("0000:81:00.0", 1));
    plant(&tree, Card::gpu("0000:82:00.0", 2));
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
    // No look at the entries alone can tell: this vendor's cards may be elsewhere.
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
