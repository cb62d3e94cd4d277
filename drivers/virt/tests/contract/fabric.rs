//! Partitions of an NVSwitch fabric: which guest needs which, and what is offered while some are used.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    ConsumerUuid, Inventory, PciAddress, Provider, ProviderName, ProviderTree, ResourceClass,
};
use berth_options::Json;
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, FabricPartitions,
    IncompletePartition, NodeView, OfferedDevice, OfferedHandle, PciInPlacement, UnfitReason,
    guest_allocations,
};

use crate::view::{bare, consumer, guest, name, node, reported};

fn address(number: u8) -> PciAddress {
    format!("0000:{number:02x}:00.0").parse().unwrap()
}

fn functions(numbers: impl IntoIterator<Item = u8>) -> BTreeSet<PciAddress> {
    numbers.into_iter().map(address).collect()
}

/// Partition 1 has the GPUs 1 to 4; 2 and 3 have two of them each; 4 has GPU 1 alone.
fn four_gpus() -> FabricPartitions {
    FabricPartitions::read(&[
        entry(1, &[1, 2, 3, 4]),
        entry(2, &[1, 2]),
        entry(3, &[3, 4]),
        entry(4, &[1]),
    ])
    .unwrap()
}

fn entry(id: u32, numbers: &[u8]) -> Json {
    let devices: Vec<Json> = numbers
        .iter()
        .map(|number| Json::from(address(*number).to_string()))
        .collect();
    let keys = [("id", Json::from(id)), ("devices", Json::from(devices))];
    keys.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn with(mut entry: Json, key: &str, value: impl Into<Json>) -> Json {
    entry[key] = value.into();
    entry
}

fn gpu(number: u8) -> OfferedDevice {
    OfferedDevice {
        address: address(number),
        vendor_id: 0x10de,
        product_id: 0x2330,
        owner: DeviceOwner::Compute,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: Some(u32::from(number > 2)),
        physical_network: None,
        network_functions: BTreeMap::new(),
        class: ResourceClass::pci_device(0x10de, 0x2330),
        class_origin: ClassOrigin::Configured,
        traits: BTreeSet::new(),
        handles: vec![OfferedHandle::Function(address(number))],
        unit: DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        link_group: None,
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}

fn claims(guests: &[(u128, &[u8])]) -> BTreeMap<ConsumerUuid, BTreeSet<PciAddress>> {
    let guests = guests.iter();
    let claim =
        |(guest, numbers): &(u128, &[u8])| (consumer(*guest), functions(numbers.iter().copied()));
    guests.map(claim).collect()
}

fn with_devices(devices: Vec<OfferedDevice>) -> NodeView {
    NodeView {
        devices,
        pci: PciInPlacement::Reported,
        ..node()
    }
}

fn offer(
    devices: Vec<OfferedDevice>,
    claimed: &BTreeMap<ConsumerUuid, BTreeSet<PciAddress>>,
) -> (NodeView, Vec<IncompletePartition>) {
    let mut node = with_devices(devices);
    let incomplete = four_gpus().offer_in(&mut node, claimed);
    (node, incomplete)
}

/// The IDs of the partitions that a guest could get.
fn free(node: &NodeView) -> Vec<DeviceUnit> {
    let fit = node.devices.iter().filter(|device| {
        device.condition == DeviceCondition::Fit && device.unfit_handles.is_empty()
    });
    fit.map(|device| device.unit).collect()
}

#[test]
fn a_partition_has_an_id_its_gpus_and_a_class_of_its_size() {
    let all = four_gpus();
    let pair = all.partition_of(&functions([1, 2])).unwrap().unwrap();
    assert_eq!(pair.to_string(), "2 (0000:01:00.0, 0000:02:00.0)");
    assert_eq!(pair.class.as_str(), "CUSTOM_FABRIC_PARTITION_2");
    // In the environment the list is one text.
    let text = Json::from(vec![entry(2, &[1, 2]), entry(4, &[1])]).to_string();
    let of_text = FabricPartitions::read(&[Json::from(text)]).unwrap();
    let single = of_text.partition_of(&functions([1])).unwrap().unwrap();
    assert_eq!(single.id, 4);
    let named = with(entry(7, &[1]), "resource_class", "CUSTOM_H100");
    let named = FabricPartitions::read(&[named]).unwrap();
    let named = named.partition_of(&functions([1])).unwrap().unwrap();
    assert_eq!(named.class.as_str(), "CUSTOM_H100");
}

#[test]
fn a_wrong_entry_is_refused_with_its_number_its_key_and_what_would_be_right() {
    let two = |second| vec![entry(1, &[1, 2]), second];
    for (entries, message) in [
        (
            vec![Json::from("{")],
            "partitions entry 1: it is not JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            vec![Json::from(1)],
            "partitions entry 1: a table with id and devices is expected",
        ),
        (
            vec![with(entry(1, &[1]), "name", "x")],
            "partitions entry 1: name: unknown key; known are id, devices, resource_class",
        ),
        (
            vec![with(entry(1, &[1]), "id", -1)],
            "partitions entry 1: id: a number from 0 to 4294967295 is expected: the partition's ID of Fabric Manager",
        ),
        (
            vec![entry(1, &[])],
            "partitions entry 1: devices: a list of the GPUs' addresses is expected, such as [\"0000:0f:00.0\"]",
        ),
        (
            vec![entry(1, &[1, 1])],
            "partitions entry 1: devices: 0000:01:00.0 is there twice",
        ),
        (
            two(entry(1, &[3])),
            "partitions entry 2: id: 1 is the ID of entry 1, too",
        ),
        (
            two(entry(2, &[2, 1])),
            "partitions entry 2: devices: entry 1 has the same devices; list one of the two",
        ),
        (
            two(with(
                entry(2, &[3]),
                "resource_class",
                "CUSTOM_FABRIC_PARTITION_2",
            )),
            "partitions entry 2: resource_class: CUSTOM_FABRIC_PARTITION_2 is the class of entry 1, which has 2 devices \
             instead of 1; name another class",
        ),
    ] {
        let error = FabricPartitions::read(&entries).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let devices = with(entry(1, &[1]), "devices", vec!["0f:00"]);
    let error = FabricPartitions::read(&[devices]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "partitions entry 1: devices: \"0f:00\" is no PCI address such as 0000:0f:00.0"
    );
}

#[test]
fn the_gpus_of_a_guest_are_exactly_one_partition_or_refused() {
    let all = four_gpus();
    let of = |numbers: &[u8]| all.partition_of(&functions(numbers.iter().copied()));
    let id = |numbers: &[u8]| of(numbers).unwrap().map(|partition| partition.id);
    assert_eq!(id(&[3, 4]), Some(3));
    assert_eq!(id(&[1]), Some(4));
    assert_eq!(id(&[1, 2, 3, 4]), Some(1));
    // A network card besides the GPUs is in no partition.
    assert_eq!(id(&[0xc1, 3, 4]), Some(3));
    assert_eq!(id(&[0xc1]), None);
    assert_eq!(id(&[]), None);
    assert_eq!(
        of(&[3]).unwrap_err().to_string(),
        "no entry of [fabric] partitions has exactly these GPUs; partitions with one of them are \
         1 (0000:01:00.0, 0000:02:00.0, 0000:03:00.0, 0000:04:00.0), 3 (0000:03:00.0, 0000:04:00.0)"
    );
    assert!(of(&[1, 3]).is_err());
}

#[test]
fn gpus_are_offered_as_partitions_with_one_unit_each() {
    let nic = OfferedDevice {
        address: address(0xc1),
        handles: vec![OfferedHandle::Function(address(0xc1))],
        ..gpu(1)
    };
    let devices = (1..=4).map(gpu).chain([nic.clone()]).collect();
    let (node, incomplete) = offer(devices, &BTreeMap::new());
    assert_eq!(incomplete, []);
    assert_eq!(node.devices[0], nic);
    assert_eq!(node.devices.len(), 5);
    let pair = &node.devices[3];
    assert_eq!(pair.unit, DeviceUnit::Partition(3));
    assert_eq!((pair.units(), pair.handles_of(1)), (1, 2));
    assert_eq!(pair.numa_node, Some(1));
    assert_eq!(node.devices[1].numa_node, None, "it is in two cells");
}

#[test]
fn partitions_with_a_gpu_of_another_partition_in_use_are_reserved() {
    use DeviceUnit::Partition;
    let all = || (1..=4).map(gpu).collect();
    let free_while = |guests: &[(u128, &[u8])]| free(&offer(all(), &claims(guests)).0);
    let none: &[(u128, &[u8])] = &[];
    assert_eq!(free_while(none), [1, 2, 3, 4].map(Partition));
    // Its own partition is allocated, and needs no reservation.
    assert_eq!(free_while(&[(1, &[1, 2])]), [2, 3].map(Partition));
    assert_eq!(
        free_while(&[(1, &[1, 2]), (2, &[3, 4])]),
        [2, 3].map(Partition)
    );
    assert_eq!(free_while(&[(1, &[1, 2, 3, 4])]), [Partition(1)]);
    assert_eq!(free_while(&[(1, &[1])]), [3, 4].map(Partition));
    // A guest that someone else created counts, too.
    let mut node = with_devices(all());
    let mut foreign = guest(1, 64);
    foreign.functions = functions([4]);
    node.guests.insert(consumer(9), foreign);
    let _ = four_gpus().offer_in(&mut node, &BTreeMap::new());
    assert_eq!(free(&node), [2, 4].map(Partition));
}

#[test]
fn a_partition_with_an_unfit_gpu_is_unfit() {
    let unfit = OfferedDevice {
        condition: DeviceCondition::Unfit {
            reason: UnfitReason::Quarantined,
        },
        ..gpu(2)
    };
    let devices = vec![gpu(1), unfit, gpu(3), gpu(4)];
    let (node, _) = offer(devices, &BTreeMap::new());
    assert_eq!(free(&node), [3, 4].map(DeviceUnit::Partition));
    let reasons: Vec<_> = node
        .devices
        .iter()
        .map(|device| device.condition.reason())
        .collect();
    let quarantined = Some(UnfitReason::Quarantined);
    assert_eq!(reasons, [quarantined, quarantined, None, None]);
}

#[test]
fn a_partition_without_one_of_its_gpus_is_not_offered_and_its_gpus_are_not_either() {
    let (node, incomplete) = offer(vec![gpu(1), gpu(2), gpu(3)], &BTreeMap::new());
    assert_eq!(free(&node), [2, 4].map(DeviceUnit::Partition));
    let ids: Vec<_> = incomplete.iter().map(|partition| partition.id).collect();
    assert_eq!(ids, [1, 3]);
    assert_eq!(
        incomplete[1].to_string(),
        "partition 3 of [fabric] partitions is not offered, because 0000:04:00.0 is in no entry of [pci] device_spec that \
         offers whole functions"
    );
}

#[test]
fn gpus_of_the_accelerator_service_stay_single_devices() {
    let accelerator = |number| OfferedDevice {
        owner: DeviceOwner::Accelerator,
        ..gpu(number)
    };
    let devices: Vec<_> = (1..=4).map(accelerator).collect();
    let (node, incomplete) = offer(devices.clone(), &BTreeMap::new());
    assert_eq!(node.devices, devices);
    assert_eq!(incomplete, []);
}

#[test]
fn in_placement_a_used_partition_is_allocated_and_those_that_overlap_are_reserved() {
    let all = || (1..=4).map(gpu).collect::<Vec<_>>();
    let (unused, _) = offer(all(), &BTreeMap::new());
    let tree = reported(&unused, &bare());
    let reserved = |tree: &ProviderTree| -> Vec<u32> {
        let names = (1..=4).map(|id| name().fabric_partition_name(id));
        let inventories = names.map(|name| tree.by_name(&name).unwrap().inventories.clone());
        inventories
            .map(|all| {
                let [inventory] = all.values().collect::<Vec<_>>()[..] else {
                    panic!("one class is expected: {all:?}");
                };
                assert_eq!(inventory.total, 1);
                inventory.reserved
            })
            .collect()
    };
    assert_eq!(reserved(&tree), [0; 4]);
    assert!(tree.by_name(&name().pci_device_name(address(1))).is_none());
    let mut seen = with_devices(all());
    let mut user = guest(1, 64);
    user.functions = functions([1, 2]);
    seen.guests.insert(consumer(1), user);
    let _ = four_gpus().offer_in(&mut seen, &BTreeMap::new());
    let used = reported(&seen, &tree);
    assert_eq!(reserved(&used), [1, 0, 0, 1]);
    // The guest's own unit is read back from its GPUs: partition 4 is a part of it, and is not allocated.
    let held = guest_allocations(&seen, &name(), &used);
    let pair = used.by_name(&name().fabric_partition_name(2)).unwrap();
    let devices: Vec<_> = held[&consumer(1)]
        .iter()
        .filter(|((provider, _), _)| *provider != used.root().uuid())
        .collect();
    let (class, one) = pair.inventories.first_key_value().unwrap();
    assert_eq!(*one, Inventory::of(1).unwrap());
    assert_eq!(devices, [(&(pair.uuid(), class.clone()), &1)]);
    // After its end nothing stays reserved, and no reservation is taken for an operator's.
    let after = reported(&unused, &used);
    assert_eq!(reserved(&after), [0; 4]);
    assert_eq!(reported(&unused, &after), after);
}

#[test]
fn the_provider_of_a_partition_is_renamed_with_its_host() {
    let (seen, _) = offer((1..=4).map(gpu).collect(), &BTreeMap::new());
    let before = ProviderName::new("old_fabric_2").unwrap();
    let mut tree = bare();
    let root = tree.root().uuid();
    let uuid = root.child(&before);
    let mut child = Provider::child(uuid, before, root);
    child
        .traits
        .insert("COMPUTE_MANAGED_PCI_DEVICE".parse().unwrap());
    tree.insert(child).unwrap();
    let renamed = reported(&seen, &tree);
    let pair = renamed.by_name(&name().fabric_partition_name(2)).unwrap();
    assert_eq!(pair.uuid(), uuid);
}
