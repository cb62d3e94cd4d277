//! Offered devices in the tree: taken over from Nova and Cyborg, unfit and fit again, one-time-use, with another class.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Inventory, LinkGroupName, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
    Trait, Usages, plan,
};
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, NodeView, OfferedDevice,
    OfferedHandle, PciInPlacement, ProviderTreeError, UnfitReason, guest_allocations,
    provider_tree,
};
use proptest::prelude::*;
use uuid::Uuid;

use crate::view::{
    bare, class, consumer, guest, held, holding, host, name, node, pending, reported, resolved,
    root_uuid,
};

pub(crate) fn device(bus: u8, owner: DeviceOwner) -> OfferedDevice {
    let address = format!("0000:{bus:02x}:00.0").parse().unwrap();
    OfferedDevice {
        address,
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: None,
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: match owner {
            DeviceOwner::Compute => ResourceClass::pci_device(0x10de, 0x1eb8),
            DeviceOwner::Accelerator => ResourceClass::PGPU,
        },
        class_origin: ClassOrigin::Configured,
        traits: BTreeSet::from(["CUSTOM_GOLD".parse().unwrap()]),
        handles: vec![OfferedHandle::Function(address)],
        unit: DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}

pub(crate) fn with(devices: Vec<OfferedDevice>) -> NodeView {
    NodeView {
        devices,
        pci: PciInPlacement::Reported,
        ..node()
    }
}

pub(crate) fn by_name<'a>(tree: &'a ProviderTree, name: &str) -> &'a Provider {
    let name = ProviderName::new(name).unwrap();
    tree.by_name(&name)
        .unwrap_or_else(|| panic!("no {name} in\n{tree}"))
}

fn traits(provider: &Provider) -> Vec<&str> {
    provider.traits.iter().map(Trait::as_str).collect()
}

fn reserved(tree: &ProviderTree, name: &str) -> u32 {
    let inventories = &by_name(tree, name).inventories;
    assert_eq!(inventories.len(), 1, "{inventories:?}");
    inventories.values().next().unwrap().reserved
}

fn reserve(tree: &mut ProviderTree, name: &str, amount: u32) {
    let uuid = by_name(tree, name).uuid();
    let provider = tree.get_mut(uuid).unwrap();
    for inventory in provider.inventories.values_mut() {
        *inventory = inventory.clone().reserving(amount);
    }
}

const UNFIT: DeviceCondition = DeviceCondition::Unfit {
    reason: UnfitReason::Aer,
};

#[test]
fn each_owner_s_device_has_its_name_its_marks_and_its_uuid() {
    let view = with(vec![
        device(0xab, DeviceOwner::Compute),
        device(0xcd, DeviceOwner::Accelerator),
    ]);
    let tree = reported(&view, &bare());
    let nova = by_name(&tree, "n1_0000:AB:00.0");
    assert_eq!(traits(nova), ["COMPUTE_MANAGED_PCI_DEVICE", "CUSTOM_GOLD"]);
    assert_eq!(nova.uuid(), root_uuid().child(&nova.name));
    assert_eq!(
        nova.inventories[&class("CUSTOM_PCI_10DE_1EB8")],
        Inventory::of(1).unwrap()
    );
    let cyborg = by_name(&tree, "n1_0000:cd:00.0");
    assert_eq!(
        traits(cyborg),
        ["CUSTOM_GOLD", "CUSTOM_OWNER_BERTH", "OWNER_CYBORG"]
    );
    assert_eq!(cyborg.uuid(), ProviderUuid::of_deployable(&cyborg.name));
    assert!(tree.is_ours(nova.uuid()) && tree.is_ours(cyborg.uuid()));
    assert_eq!(reported(&view, &tree), tree);
}

/// A child as another service left it.
fn left(tree: &mut ProviderTree, uuid: ProviderUuid, name: &str, of: &str, trait_names: &[&str]) {
    let mut child = Provider::child(uuid, ProviderName::new(name).unwrap(), root_uuid());
    child
        .inventories
        .insert(class(of), Inventory::of(1).unwrap());
    child.traits = trait_names
        .iter()
        .map(|name| name.parse().unwrap())
        .collect();
    tree.insert(child).unwrap();
}

#[test]
fn a_cyborg_host_is_taken_over_with_the_providers_it_has() {
    for trait_names in [&[][..], &["OWNER_CYBORG", "CUSTOM_STALE"]] {
        let mut tree = bare();
        let name = ProviderName::new("n1_0000:cd:00.0").unwrap();
        let uuid = ProviderUuid::of_deployable(&name);
        left(&mut tree, uuid, name.as_str(), "PGPU", trait_names);
        let view = with(vec![device(0xcd, DeviceOwner::Accelerator)]);
        let taken = reported(&view, &tree);
        assert_eq!(taken.children(root_uuid()).len(), 1);
        let child = taken.get(uuid).unwrap();
        assert_eq!(
            traits(child),
            ["CUSTOM_GOLD", "CUSTOM_OWNER_BERTH", "OWNER_CYBORG"]
        );
        assert_eq!(child.inventories, tree.get(uuid).unwrap().inventories);
    }
}

#[test]
fn a_cyborg_host_is_taken_over_whatever_cyborg_called_the_host() {
    for trait_names in [&[][..], &["OWNER_CYBORG"]] {
        let mut tree = bare();
        let short = ProviderName::new("other_0000:cd:00.0").unwrap();
        let uuid = ProviderUuid::of_deployable(&short);
        left(&mut tree, uuid, short.as_str(), "PGPU", trait_names);
        let view = with(vec![device(0xcd, DeviceOwner::Accelerator)]);
        // The name first, then the marks and the rest.
        let renamed = reported(&view, &tree);
        let taken = reported(&view, &renamed);
        let [child] = taken.children(root_uuid())[..] else {
            panic!("{taken}");
        };
        assert_eq!(
            (child.uuid(), child.name.as_str()),
            (uuid, "n1_0000:cd:00.0")
        );
        assert_eq!(
            traits(child),
            ["CUSTOM_GOLD", "CUSTOM_OWNER_BERTH", "OWNER_CYBORG"]
        );
        assert_eq!(reported(&view, &taken), taken);
        // Both reports use the same provider.
        let device = &view.devices[0];
        for tree in [&tree, &renamed, &taken] {
            let provider = device.provider_in(&name(), tree).unwrap();
            assert_eq!(provider.uuid(), uuid);
        }
        // A missing device is reserved until it is unused, even if Placement does not know the owner's trait.
        let mut unknown = taken.clone();
        let child = unknown.get_mut(uuid).unwrap();
        child.traits.remove(&Trait::OWNER_CYBORG);
        for tree in [taken, unknown] {
            let gone = reported(&with(Vec::new()), &tree);
            let left = gone.get(uuid).unwrap();
            assert!(left.inventories.values().all(Inventory::is_held), "{gone}");
        }
    }
}

#[test]
fn a_card_of_cyborgs_that_is_named_by_one_of_its_functions_is_taken_over() {
    let mut tree = bare();
    let cyborgs = ProviderName::new("other_0000:cd:00.5").unwrap();
    let uuid = ProviderUuid::of_deployable(&cyborgs);
    left(&mut tree, uuid, cyborgs.as_str(), "FPGA", &["OWNER_CYBORG"]);
    let inventories = &mut tree.get_mut(uuid).unwrap().inventories;
    inventories.insert(class("FPGA"), Inventory::of(3).unwrap());
    let mut card = device(0xcd, DeviceOwner::Accelerator);
    card.class = class("FPGA");
    let functions = ["0000:cd:00.4", "0000:cd:00.5", "0000:cd:00.6"];
    let functions = functions.map(|address| OfferedHandle::Function(address.parse().unwrap()));
    card.handles = functions.to_vec();
    let view = with(vec![card]);
    let renamed = reported(&view, &tree);
    let taken = reported(&view, &renamed);
    let [child] = taken.children(root_uuid())[..] else {
        panic!("{taken}");
    };
    assert_eq!(
        (child.uuid(), child.name.as_str()),
        (uuid, "n1_0000:cd:00.0")
    );
    assert_eq!(child.inventories, tree.get(uuid).unwrap().inventories);
    assert_eq!(reported(&view, &taken), taken);
    for tree in [&tree, &renamed, &taken] {
        let provider = view.devices[0].provider_in(&name(), tree).unwrap();
        assert_eq!(provider.uuid(), uuid);
    }
    // Cyborg's PCI driver created a provider for each function; which one is the card's cannot be known.
    let other = ProviderName::new("other_0000:cd:00.6").unwrap();
    let each = ProviderUuid::of_deployable(&other);
    left(
        &mut tree,
        each,
        other.as_str(),
        "CUSTOM_PCI",
        &["OWNER_CYBORG"],
    );
    let refused = provider_tree(&host(view), &tree, &name()).unwrap_err();
    assert!(
        matches!(refused, ProviderTreeError::DuplicateChild { .. }),
        "{refused}"
    );
}

#[test]
fn two_providers_of_one_device_are_for_an_operator_to_distinguish() {
    let mut tree = bare();
    for (name, of) in [
        ("n1_0000:cd:00.0", "PGPU"),
        ("other_0000:cd:00.0", "CUSTOM_PCI"),
    ] {
        let uuid = ProviderUuid::of_deployable(&ProviderName::new(name).unwrap());
        left(&mut tree, uuid, name, of, &["OWNER_CYBORG"]);
    }
    let view = with(vec![device(0xcd, DeviceOwner::Accelerator)]);
    let refused = provider_tree(&host(view), &tree, &name()).unwrap_err();
    assert!(
        matches!(refused, ProviderTreeError::DuplicateChild { .. }),
        "{refused}"
    );
}

#[test]
fn the_class_of_cyborgs_pci_driver_stays_until_an_operator_says_another() {
    let mut tree = bare();
    let cyborgs = ProviderName::new("other_0000:cd:00.0").unwrap();
    let uuid = ProviderUuid::of_deployable(&cyborgs);
    let trait_names = [
        "OWNER_CYBORG",
        "CUSTOM_PCI_NVIDIA",
        "CUSTOM_PCI_PRODUCT_ID_1EB8",
        "CUSTOM_STALE",
    ];
    left(
        &mut tree,
        uuid,
        cyborgs.as_str(),
        "CUSTOM_PCI",
        &trait_names,
    );
    let mut card = device(0xcd, DeviceOwner::Accelerator);
    card.class_origin = ClassOrigin::Default;
    let view = with(vec![card.clone()]);
    let renamed = reported(&view, &tree);
    let taken = reported(&view, &renamed);
    let child = taken.get(uuid).unwrap();
    assert_eq!(child.inventories, tree.get(uuid).unwrap().inventories);
    assert_eq!(
        traits(child),
        [
            "CUSTOM_GOLD",
            "CUSTOM_OWNER_BERTH",
            "CUSTOM_PCI_NVIDIA",
            "CUSTOM_PCI_PRODUCT_ID_1EB8",
            "OWNER_CYBORG"
        ]
    );
    assert_eq!(reported(&view, &taken), taken);
    let mut kept = card.clone();
    assert!(kept.retain_cyborg_providers(&name(), &taken));
    assert_eq!(kept.class, class("CUSTOM_PCI"));
    assert!(!kept.retain_cyborg_providers(&name(), &taken), "once");
    // A guest with it holds a unit of that class.
    let mut seen = view.clone();
    let mut user = guest(1, 64);
    user.functions.insert(card.address);
    seen.guests.insert(consumer(1), user);
    let claims = guest_allocations(&seen, &name(), &taken);
    assert_eq!(claims[&consumer(1)][&(uuid, class("CUSTOM_PCI"))], 1);
    // As mediated devices it is offered in a form that Cyborg's driver does not know; and a configured class is
    // binding.
    let parts = (0..2).map(|number| OfferedHandle::Mdev {
        uuid: OfferedHandle::mdev_uuid(uuid, number),
        parent: card.address,
        mdev_type: "nvidia-223".to_owned(),
    });
    let others = [
        OfferedDevice {
            class_origin: ClassOrigin::Configured,
            ..card.clone()
        },
        OfferedDevice {
            handles: parts.collect(),
            ..card
        },
    ];
    for mut other in others {
        assert!(!other.retain_cyborg_providers(&name(), &taken));
        let moved = provider_tree(&host(with(vec![other])), &taken, &name()).unwrap();
        assert_eq!(moved.moves.len(), 1);
    }
}

#[test]
fn a_card_that_is_given_out_whole_has_one_unit_however_many_handles() {
    let mut card = device(0xcd, DeviceOwner::Accelerator);
    let function = |n| OfferedHandle::Function(format!("0000:cd:00.{n}").parse().unwrap());
    card.handles = (0..2).map(function).collect();
    card.unit = DeviceUnit::Device;
    let tree = reported(&with(vec![card.clone()]), &bare());
    let child = by_name(&tree, "n1_0000:cd:00.0");
    assert_eq!(child.inventories[&card.class], Inventory::of(1).unwrap());
    // A guest that has both has that unit.
    let mut seen = with(vec![card.clone()]);
    let mut user = guest(1, 64);
    for n in 0..2 {
        user.functions
            .insert(format!("0000:cd:00.{n}").parse().unwrap());
    }
    seen.guests.insert(consumer(1), user);
    let claims = guest_allocations(&seen, &name(), &tree);
    assert_eq!(claims[&consumer(1)][&(child.uuid(), card.class.clone())], 1);
    // One function set aside reserves the whole unit, and no more.
    card.unfit_handles = (0..2).map(function).collect();
    let aside = reported(&with(vec![card]), &tree);
    assert_eq!(reserved(&aside, "n1_0000:cd:00.0"), 1);
}

#[test]
fn with_the_real_cyborg_its_children_stay_as_they_are() {
    let mut tree = reported(&node(), &bare());
    let name = ProviderName::new("n1_0000:cd:00.0").unwrap();
    let uuid = ProviderUuid::of_deployable(&name);
    left(&mut tree, uuid, name.as_str(), "PGPU", &["OWNER_CYBORG"]);
    // The host has the trait for guests with accelerators.
    let asked_for = "COMPUTE_ACCELERATORS".parse().unwrap();
    tree.root_mut().traits.insert(asked_for);
    assert_eq!(reported(&with(Vec::new()), &tree), tree);
}

#[test]
fn a_host_of_novas_pci_tracker_is_taken_over_once_pci_is_reported() {
    let mut tree = reported(&node(), &bare());
    let novas = ["COMPUTE_MANAGED_PCI_DEVICE"];
    let (stays, goes) = (Uuid::from_u128(5).into(), Uuid::from_u128(6).into());
    let of = "CUSTOM_PCI_10DE_1EB8";
    left(&mut tree, stays, "n1_0000:AB:00.0", of, &novas);
    left(
        &mut tree,
        goes,
        "n1_0000:AC:00.0",
        of,
        &["COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"],
    );
    let off = NodeView {
        pci: PciInPlacement::NotReported,
        ..with(vec![device(0xab, DeviceOwner::Compute)])
    };
    assert_eq!(reported(&off, &tree), tree, "PCI devices are not reported");
    let view = with(vec![device(0xab, DeviceOwner::Compute)]);
    let desired = provider_tree(&host(view.clone()), &tree, &name()).unwrap();
    let usages = Usages::from([((goes, class(of)), 0)]);
    let berth_model::Plan::Update { diff, .. } = plan(&tree, desired, &usages) else {
        panic!("no update")
    };
    let taken = diff.apply(&tree).unwrap();
    let child = taken.get(stays).unwrap();
    assert_eq!(
        traits(child),
        ["COMPUTE_MANAGED_PCI_DEVICE", "CUSTOM_GOLD", "OWNER_NOVA"]
    );
    assert_eq!(taken.get(goes), None);
}

#[test]
fn a_device_of_nova_s_that_cyborg_writes_is_refused_with_its_name() {
    let made = |name: &str| ProviderUuid::of_deployable(&ProviderName::new(name).unwrap());
    for (bus, cyborgs, uuid) in [
        (0x81, "n1_0000:81:00.0", Uuid::from_u128(5).into()),
        // Cyborg writes addresses in lower case, and may use another host name.
        (0xcd, "n1_0000:cd:00.0", made("n1_0000:cd:00.0")),
        (0xcd, "other_0000:cd:00.0", made("other_0000:cd:00.0")),
    ] {
        let mut tree = bare();
        left(&mut tree, uuid, cyborgs, "PGPU", &["OWNER_CYBORG"]);
        let view = with(vec![device(bus, DeviceOwner::Compute)]);
        let refused = provider_tree(&host(view), &tree, &name()).unwrap_err();
        assert!(
            matches!(refused, ProviderTreeError::OwnedByCyborg { .. }),
            "{refused}"
        );
        let text = refused.to_string();
        assert!(
            text.contains("[pci] device_spec") && text.contains(&uuid.to_string()),
            "{text}"
        );
    }
}

#[test]
fn a_device_that_changes_hands_keeps_its_provider_and_its_units() {
    for (from, to) in [
        (DeviceOwner::Compute, DeviceOwner::Accelerator),
        (DeviceOwner::Accelerator, DeviceOwner::Compute),
    ] {
        let mut before = with(vec![device(0xab, from)]);
        let mut user = guest(1, 64);
        user.functions.insert("0000:ab:00.0".parse().unwrap());
        before.guests.insert(consumer(1), user);
        let tree = reported(&before, &bare());
        let holds = held(&before, &tree);
        let after = NodeView {
            devices: vec![device(0xab, to)],
            ..before.clone()
        };
        // First the name and the marks, then the class.
        let mut marked = reported(&after, &tree);
        let pending = loop {
            if let Some(pending) = pending(&after, &marked) {
                break pending;
            }
            let next = reported(&after, &marked);
            assert_ne!(next, marked, "its units go along");
            marked = next;
        };
        let request = resolved(&after, pending, &holds).unwrap();
        assert_eq!((request.homeless(), request.held()), (&[][..], &[][..]));
        let expected = guest_allocations(&after, &name(), request.tree());
        let then = request.afterwards(&holds);
        assert_eq!(
            then.of(&consumer(1)),
            Some(&holding(expected[&consumer(1)].clone()))
        );
        assert_eq!(reported(&after, request.tree()), *request.tree());
    }
}

#[test]
fn what_an_operator_reserved_outlives_a_sickness() {
    let mut card = device(0x81, DeviceOwner::Accelerator);
    let part = |n| OfferedHandle::Function(format!("0000:81:01.{n}").parse().unwrap());
    card.handles = (0..4).map(part).collect();
    let unhealthy = OfferedDevice {
        condition: UNFIT,
        ..card.clone()
    };
    let name = "n1_0000:81:00.0";
    for operators in [0, 1, 4] {
        let mut tree = reported(&with(vec![card.clone()]), &bare());
        reserve(&mut tree, name, operators);
        let ill = reported(&with(vec![unhealthy.clone()]), &tree);
        assert_eq!(reserved(&ill, name), 4);
        assert_eq!(reported(&with(vec![unhealthy.clone()]), &ill), ill);
        let back = reported(&with(vec![card.clone()]), &ill);
        assert_eq!(back, tree, "{operators} reserved before");
    }
}

#[test]
fn the_quarantined_parts_of_a_card_are_reserved_in_addition_to_what_an_operator_reserved() {
    let mut card = device(0x81, DeviceOwner::Accelerator);
    let part = |n| OfferedHandle::Function(format!("0000:81:01.{n}").parse().unwrap());
    card.handles = (0..4).map(part).collect();
    let name = "n1_0000:81:00.0";
    let aside = |parts: &[u8]| {
        let unfit_handles = parts.iter().map(|n| part(*n)).collect();
        with(vec![OfferedDevice {
            unfit_handles,
            ..card.clone()
        }])
    };
    for operators in [0, 1, 4] {
        let mut tree = reported(&aside(&[]), &bare());
        assert!(
            traits(tree.root()).contains(&"COMPUTE_ACCELERATORS"),
            "at once"
        );
        reserve(&mut tree, name, operators);
        let before = tree.clone();
        for parts in [&[2][..], &[2, 3], &[3]] {
            tree = reported(&aside(parts), &tree);
            let count = u32::try_from(parts.len()).unwrap();
            assert_eq!(reserved(&tree, name), (operators + count).min(4));
            assert_eq!(reported(&aside(parts), &tree), tree);
        }
        // A handle in a guest counts as used.
        let mut held = aside(&[3]);
        let mut user = guest(1, 64);
        user.functions.insert("0000:81:01.3".parse().unwrap());
        held.guests.insert(consumer(1), user);
        assert_eq!(reserved(&reported(&held, &tree), name), operators);
        assert_eq!(reported(&aside(&[]), &tree), before);
    }
}

#[test]
fn a_device_that_is_used_once_is_kept_back_until_somebody_else_frees_it() {
    let mut once = device(0x81, DeviceOwner::Compute);
    once.one_time_use = true;
    let name = "n1_0000:81:00.0";
    let free = with(vec![once.clone()]);
    let mut tree = reported(&free, &bare());
    assert!(traits(by_name(&tree, name)).contains(&"HW_PCI_ONE_TIME_USE"));
    assert_eq!(reserved(&tree, name), 0);
    let mut held = free.clone();
    let mut user = guest(1, 64);
    user.functions.insert(once.address);
    held.guests.insert(consumer(1), user);
    for view in [&held, &free] {
        tree = reported(view, &tree);
        assert_eq!(reserved(&tree, name), 1);
    }
    let mut unhealthy = free.clone();
    unhealthy.devices[0].condition = UNFIT;
    for view in [&unhealthy, &free] {
        tree = reported(view, &tree);
        assert_eq!(reserved(&tree, name), 1, "a sickness does not clean it");
    }
    reserve(&mut tree, name, 0);
    assert_eq!(
        reserved(&reported(&free, &tree), name),
        0,
        "cleaned by another party"
    );
}

#[test]
fn an_interrupted_rename_of_the_host_makes_no_second_provider() {
    let view = with(vec![
        device(0xab, DeviceOwner::Compute),
        device(0xcd, DeviceOwner::Accelerator),
    ]);
    let mut tree = reported(&view, &bare());
    for (now, old) in [
        ("n1_0000:AB:00.0", "was_0000:AB:00.0"),
        ("n1_0000:cd:00.0", "was_0000:cd:00.0"),
    ] {
        let uuid = by_name(&tree, now).uuid();
        tree.get_mut(uuid).unwrap().name = ProviderName::new(old).unwrap();
    }
    let renamed = reported(&view, &tree);
    assert_eq!(renamed.children(root_uuid()).len(), 2);
    assert_eq!(reported(&view, &renamed), renamed);
    by_name(&renamed, "n1_0000:AB:00.0");
    by_name(&renamed, "n1_0000:cd:00.0");
}

fn a_device() -> impl Strategy<Value = OfferedDevice> {
    let owner = prop_oneof![Just(DeviceOwner::Compute), Just(DeviceOwner::Accelerator)];
    let condition = prop_oneof![
        2 => Just(DeviceCondition::Fit),
        1 => prop::sample::select(UnfitReason::ALL.to_vec()).prop_map(|reason| DeviceCondition::Unfit { reason }),
    ];
    let classes = prop::sample::select(vec!["PGPU", "VGPU", "CUSTOM_A", "CUSTOM_PCI_10DE_1EB8"]);
    (
        0xa0..0xa6u8,
        owner,
        condition,
        classes,
        0..4usize,
        any::<bool>(),
        prop::option::of(prop::sample::select(vec!["left", "right"])),
    )
        .prop_map(|(bus, owner, condition, of, parts, one_time_use, group)| {
            let mut one = device(bus, owner);
            let part =
                |n| OfferedHandle::Function(format!("0000:{bus:02x}:01.{n}").parse().unwrap());
            one.handles = (0..parts).map(part).collect();
            one.class = class(of);
            let unfit_handles = one.handles.iter().skip(2).cloned().collect();
            OfferedDevice {
                condition,
                unfit_handles,
                one_time_use,
                link_group: group.map(|name| LinkGroupName::new(name).unwrap()),
                ..one
            }
        })
}

fn machines() -> impl Strategy<Value = Vec<OfferedDevice>> {
    prop::collection::vec(a_device(), 0..6).prop_map(|mut devices| {
        let mut seen = BTreeSet::new();
        devices.retain(|one| seen.insert(one.address));
        devices
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn from_any_machine_to_any_other_the_tree_settles_and_has_each_device_once(
        before in machines(), after in machines(), used in any::<bool>()
    ) {
        let (before, after) = (with(before), with(after));
        let mut tree = reported(&before, &bare());
        let usages: Usages = tree.own().iter().flat_map(|one| {
            one.inventories.keys().map(|of| ((one.uuid(), of.clone()), u64::from(used)))
        }).collect();
        // Names and marks first, then the rest; a change of class is a reshape and ends the loop.
        for _ in 0..3 {
            let desired = provider_tree(&host(after.clone()), &tree, &name()).unwrap();
            match plan(&tree, desired, &usages) {
                berth_model::Plan::InSync { .. } => break,
                berth_model::Plan::Update { diff, .. } => tree = diff.apply(&tree).unwrap(),
                berth_model::Plan::ReshapeNeeded(_) => return Ok(()),
            }
        }
        let desired = provider_tree(&host(after.clone()), &tree, &name()).unwrap();
        let verdict = plan(&tree, desired, &usages);
        prop_assert!(matches!(verdict, berth_model::Plan::InSync { .. }), "{verdict}");
        for one in &after.devices {
            let gone = one.condition.reason() == Some(UnfitReason::Vanished) || one.handles.is_empty();
            let child = tree.by_name(&one.provider_name(&name()));
            if gone {
                prop_assert!(child.is_none_or(|child| used && child.inventories.values().all(Inventory::is_held)), "{tree}");
            } else {
                let inventory = &child.unwrap().inventories[&one.class];
                prop_assert_eq!(u64::from(inventory.total), one.handles.len() as u64);
                let group = one.link_group.as_ref().map(|group| name().link_group_name(group));
                let parent = child.and_then(|child| tree.get(child.parent()?)).unwrap();
                prop_assert_eq!(&parent.name, group.as_ref().unwrap_or(&tree.root().name));
                if one.condition != DeviceCondition::Fit {
                    prop_assert_eq!(inventory.capacity(), 0);
                }
            }
        }
    }
}
