//! What is written into Placement's tree, and what stays unchanged.

use berth_model::{
    AllocationRatio, Inventory, MemoryEncryption, NodeName, Plan, Provider, ProviderTree, Trait,
    Usages, plan,
};
use berth_virt::{
    NodeDisk, NodeView, NumaModel, PcpuModel, ProviderTreeError, ResourceModel, VgpuModel,
    provider_tree,
};

use crate::view::{
    OLD, bare, card, class, custom, gpu, host, modelled, name, node, pending, reported, root_uuid,
    two_cells,
};

const NEW: ResourceModel = ResourceModel {
    vgpu: VgpuModel::PerGpu,
    numa: NumaModel::Cells,
    pcpu: PcpuModel::Pcpu,
};

fn everything() -> NodeView {
    let mut node = node();
    node.cpus.shared = Some("0-1,4-5".parse().unwrap());
    node.cpus.dedicated = Some("2-3,6-7".parse().unwrap());
    node.cells = two_cells();
    node.gpus = vec![
        gpu(1, "VGPU", 4),
        gpu(2, "CUSTOM_BIG", 2),
        gpu(3, "VGPU", 0),
    ];
    node.functions = vec![card(4, 4, Some(1)), card(5, 2, None), card(6, 1, Some(9))];
    node.customs = vec![custom("CUSTOM_CARD", &[], 3)];
    node.traits = [Trait::new("HW_CPU_X86_AVX2").unwrap()].into();
    node
}

#[test]
fn each_model_reports_its_own_tree() {
    let flat = reported(&everything(), &bare()).to_string();
    let flat: Vec<_> = flat.lines().map(str::trim).collect();
    assert_eq!(
        flat,
        [
            "n1",
            "CUSTOM_BIG 2",
            "CUSTOM_CARD 3",
            "DISK_GB 100",
            "MEMORY_MB 8192",
            "SRIOV_NET_VF 7",
            "VCPU 8",
            "VGPU 4"
        ]
    );
    let new = reported(&modelled(&everything(), NEW), &bare());
    let lines = new.to_string();
    let lines: Vec<_> = lines.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "n1",
            "CUSTOM_CARD 3",
            "DISK_GB 100",
            "n1_numa0",
            "MEMORY_MB 4096",
            "PCPU 2",
            "SRIOV_NET_VF 3",
            "VCPU 2",
            "n1_numa1",
            "MEMORY_MB 4096",
            "PCPU 2",
            "SRIOV_NET_VF 4",
            "VCPU 2",
            "n1_pci_0000_01_00_0",
            "VGPU 4",
            "n1_pci_0000_02_00_0",
            "CUSTOM_BIG 2"
        ]
    );
}

#[test]
fn each_model_of_memory_encryption_has_a_provider_with_its_trait() {
    let mut encrypting = node();
    encrypting.encryption_contexts = [
        (MemoryEncryption::AmdSev, 410),
        (MemoryEncryption::AmdSevEs, 99),
    ]
    .into();
    let tree = reported(&encrypting, &bare());
    for (end, total, required) in [
        ("amd_sev", 410, "HW_CPU_X86_AMD_SEV"),
        ("amd_sev_es", 99, "HW_CPU_X86_AMD_SEV_ES"),
    ] {
        let name = format!("n1_{end}").parse().unwrap();
        let child = tree.by_name(&name).unwrap();
        let contexts = &child.inventories[&class("MEM_ENCRYPTION_CONTEXT")];
        assert_eq!(contexts.total, total);
        assert!(child.traits.contains(&Trait::new(required).unwrap()));
    }
    // A host that encrypts no more has no such providers.
    let desired = provider_tree(&host(node()), &tree, &name()).unwrap();
    assert_eq!(desired.tree, reported(&node(), &bare()));
}

#[test]
fn a_shared_disk_is_not_reported_twice() {
    let mut node = node();
    node.disk = NodeDisk::Shared;
    let tree = reported(&node, &bare());
    assert!(tree.inventory(root_uuid(), &class("DISK_GB")).is_none());
}

#[test]
fn what_is_not_the_drivers_stays() {
    let mut tree = reported(&everything(), &bare());
    let root = tree.root_mut();
    let theirs = [
        "COMPUTE_NODE",
        "COMPUTE_STATUS_DISABLED",
        "CUSTOM_RACK_7",
        "OWNER_NOVA",
    ]
    .map(|name| Trait::new(name).unwrap());
    root.traits.extend(theirs.clone());
    root.traits.insert(Trait::new("HW_CPU_X86_SSE4A").unwrap());
    root.traits
        .insert(Trait::new("COMPUTE_TRUSTED_CERTS").unwrap());
    let power = class("CUSTOM_WATTS");
    root.inventories
        .insert(power.clone(), Inventory::of(500).unwrap());
    let mut fpga = Provider::child(
        uuid::Uuid::from_u128(7).into(),
        "n1_fpga".parse().unwrap(),
        root_uuid(),
    );
    fpga.traits.insert(Trait::OWNER_CYBORG);
    fpga.inventories
        .insert(class("FPGA"), Inventory::of(1).unwrap());
    tree.insert(fpga.clone()).unwrap();
    let mut pci = Provider::child(
        uuid::Uuid::from_u128(8).into(),
        "n1_0000:AB:00.0".parse().unwrap(),
        root_uuid(),
    );
    pci.traits.insert(Trait::OWNER_NOVA);
    tree.insert(pci.clone()).unwrap();
    let share = Provider::root(uuid::Uuid::from_u128(9).into(), "nfs".parse().unwrap());
    tree.insert(share.clone()).unwrap();

    let view = host(modelled(&everything(), NEW));
    let wanted = provider_tree(&view, &tree, &name()).unwrap().tree;
    let root = wanted.root();
    assert!(theirs.iter().all(|held| root.traits.contains(held)));
    let judged: Vec<_> = root
        .traits
        .iter()
        .filter(|held| held.as_str().contains("86") || held.as_str().contains("CERTS"))
        .map(Trait::as_str)
        .collect();
    assert_eq!(judged, ["HW_CPU_X86_AVX2"]);
    assert!(root.inventories.contains_key(&power));
    for theirs in [fpga, pci, share] {
        assert_eq!(wanted.get(theirs.uuid()), Some(&theirs));
    }
}

#[test]
fn what_an_operator_set_survives_also_on_the_new_provider() {
    let mut tree = reported(&everything(), &bare());
    let ratio = AllocationRatio::new(1.5).unwrap();
    let memory = class("MEMORY_MB");
    let vcpu = class("VCPU");
    for class in [&memory, &vcpu] {
        let inventories = &mut tree.root_mut().inventories;
        let set = inventories[class].clone().with_ratio(ratio).reserving(2);
        inventories.insert(class.clone(), set);
    }
    let again = reported(&everything(), &tree);
    assert_eq!(again, tree);
    let pending = pending(&modelled(&everything(), NEW), &tree).unwrap();
    let wanted = &pending.desired().tree;
    let numa0 = wanted.by_name(&"n1_numa0".parse().unwrap()).unwrap();
    assert_eq!(numa0.inventories[&memory].allocation_ratio, ratio);
    assert_eq!(numa0.inventories[&vcpu].allocation_ratio, ratio);
    let one = AllocationRatio::ONE;
    assert_eq!(numa0.inventories[&class("PCPU")].allocation_ratio, one);
}

#[test]
fn a_renamed_class_keeps_what_an_operator_set() {
    let mut node = node();
    node.customs = vec![custom("CUSTOM_OLD", &[], 4)];
    let mut tree = reported(&node, &bare());
    let root = tree.root_mut();
    let set = root.inventories[&class("CUSTOM_OLD")].clone().reserving(1);
    root.inventories.insert(class("CUSTOM_OLD"), set);
    node.customs = vec![custom("PGPU", &["CUSTOM_OLD"], 4)];
    let pending = pending(&node, &tree).unwrap();
    let root = pending.desired().tree.root();
    assert_eq!(root.inventories[&class("PGPU")].reserved, 1);
    assert!(!root.inventories.contains_key(&class("CUSTOM_OLD")));
}

#[test]
fn a_reserve_larger_than_what_is_left_is_kept_as_all_there_is() {
    let mut node = node();
    node.gpus = vec![gpu(1, "VGPU", 8)];
    let mut tree = reported(&node, &bare());
    let set = tree.root().inventories[&class("VGPU")].clone().reserving(6);
    tree.root_mut().inventories.insert(class("VGPU"), set);
    node.gpus = vec![gpu(1, "VGPU", 4)];
    let less = reported(&node, &tree);
    assert_eq!(less.root().inventories[&class("VGPU")].reserved, 4);
    assert_eq!(reported(&node, &less), less);
}

#[test]
fn held_units_are_no_reshape_and_do_not_spread() {
    let new = modelled(&everything(), NEW);
    let mut tree = reported(&new, &bare());
    let held = Inventory::holding(2).unwrap();
    tree.root_mut()
        .inventories
        .insert(class("VGPU"), held.clone());
    tree.root_mut().inventories.insert(class("VCPU"), held);
    let desired = provider_tree(&host(new), &tree, &name()).unwrap();
    let named: Vec<_> = desired.moves.iter().map(|m| m.class.as_str()).collect();
    assert_eq!(named, ["VCPU", "VGPU"], "a start may try to rehome them");
    assert!(
        desired
            .tree
            .all()
            .iter()
            .flat_map(|provider| provider.inventories.values())
            .all(|inventory| inventory.reserved == 0 && !inventory.is_held())
    );
    let usages = Usages::from([
        ((root_uuid(), class("VGPU")), 2),
        ((root_uuid(), class("VCPU")), 2),
    ]);
    match plan(&tree, desired.clone(), &usages) {
        Plan::InSync { held } => assert_eq!(held.len(), 2),
        other => panic!("{other}"),
    }
    let freed = usages.into_keys().map(|place| (place, 0)).collect();
    match plan(&tree, desired, &freed) {
        Plan::Update { diff, held } => assert_eq!((diff.changed.len(), held.len()), (1, 0)),
        other => panic!("{other}"),
    }
}

#[test]
fn a_gpu_no_longer_configured_is_removed_without_a_reshape() {
    let mut new = modelled(&everything(), NEW);
    let tree = reported(&new, &bare());
    new.gpus[0].offered = None;
    assert!(pending(&new, &tree).is_none());
    let desired = provider_tree(&host(new), &tree, &name()).unwrap();
    assert!(
        desired
            .tree
            .by_name(&"n1_pci_0000_01_00_0".parse().unwrap())
            .is_none()
    );
}

#[test]
fn a_child_with_somebodys_child_below_is_emptied_but_stays() {
    let per_gpu = modelled(&everything(), NEW);
    let mut tree = reported(&per_gpu, &bare());
    let gpu = tree
        .by_name(&"n1_pci_0000_01_00_0".parse().unwrap())
        .unwrap()
        .uuid();
    let mut below = Provider::child(
        uuid::Uuid::from_u128(5).into(),
        "theirs".parse().unwrap(),
        gpu,
    );
    below.traits.insert(Trait::OWNER_CYBORG);
    tree.insert(below.clone()).unwrap();
    let flat = host(everything());
    let desired = provider_tree(&flat, &tree, &name()).unwrap();
    assert!(desired.tree.get(gpu).unwrap().inventories.is_empty());
    assert!(desired.tree.get(below.uuid()).is_some());
    let again = provider_tree(&flat, &desired.tree, &name()).unwrap();
    assert_eq!((again.tree, again.moves), (desired.tree, Vec::new()));
}

#[test]
fn cyborgs_child_of_a_gpus_name_is_refused_not_written() {
    let mut tree = bare();
    let mut theirs = Provider::child(
        uuid::Uuid::from_u128(5).into(),
        "n1_pci_0000_01_00_0".parse().unwrap(),
        root_uuid(),
    );
    theirs.traits.insert(Trait::OWNER_CYBORG);
    tree.insert(theirs).unwrap();
    let view = host(modelled(&everything(), NEW));
    let refused = provider_tree(&view, &tree, &name()).unwrap_err();
    assert!(matches!(refused, ProviderTreeError::Tree { .. }));
}

#[test]
fn novas_own_gpu_child_is_taken_over_with_its_uuid() {
    let mut tree = bare();
    let novas = Provider::child(
        uuid::Uuid::from_u128(5).into(),
        "n1_pci_0000_01_00_0".parse().unwrap(),
        root_uuid(),
    );
    tree.insert(novas.clone()).unwrap();
    let view = host(modelled(&everything(), NEW));
    let wanted = provider_tree(&view, &tree, &name()).unwrap().tree;
    let taken = wanted.get(novas.uuid()).unwrap();
    assert_eq!(taken.inventories[&class("VGPU")].total, 4);
}

#[test]
fn dedicated_cpus_outside_every_cell_ask_for_no_reshape_forever() {
    let mut node = everything();
    node.cpus.online = "0-11".parse().unwrap();
    node.cpus.shared = Some("0-7".parse().unwrap());
    node.cpus.dedicated = Some("8-11".parse().unwrap());
    node.model = ResourceModel {
        numa: NumaModel::Cells,
        ..OLD
    };
    let tree = reported(&node, &bare());
    assert!(pending(&modelled(&node, NEW), &tree).is_none_or(|pending| {
        pending
            .desired()
            .moves
            .iter()
            .all(|m| m.class != class("VCPU"))
    }));
}

#[test]
fn views_that_make_no_tree_are_refused() {
    let view = host(everything());
    let other = NodeName::new("n2").unwrap();
    let unknown = provider_tree(&view, &bare(), &other).unwrap_err();
    assert_eq!(unknown.to_string(), "the hypervisor has no node n2");
    let mut vast = node();
    vast.memory_mib = 1 << 31;
    let refused = provider_tree(&host(vast), &bare(), &name()).unwrap_err();
    assert_eq!(refused.to_string(), "MEMORY_MB on n1");
}

#[test]
fn a_name_taken_by_a_sharing_provider_is_refused() {
    let mut tree: ProviderTree = bare();
    tree.insert(Provider::root(
        uuid::Uuid::from_u128(9).into(),
        "n1_numa0".parse().unwrap(),
    ))
    .unwrap();
    let view = host(modelled(&everything(), NEW));
    assert!(provider_tree(&view, &tree, &name()).is_err());
}
