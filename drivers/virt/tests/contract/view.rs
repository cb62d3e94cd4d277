//! Hand-made views, and the change from one model to another.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, NodeName, PendingReshape, Plan, Provider,
    ProviderTree, ProviderUuid, ReshapeRefused, ReshapeRequest, ResourceClass, Usages, plan,
};
use berth_virt::{
    CpuSet, CustomResource, GuestCell, GuestCpuPolicy, GuestMdev, GuestView, HostNumaCell,
    HostView, HypervisorInfo, NodeCpus, NodeDisk, NodeView, NumaModel, OfferedMdevs, PcpuModel,
    PhysicalGpu, PowerState, ResourceModel, Resources, TreePair, VgpuModel, VirtualFunctions,
    guest_allocations, homes, provider_tree,
};
use uuid::Uuid;

/// The model before every upgrade.
pub(crate) const OLD: ResourceModel = ResourceModel {
    vgpu: VgpuModel::Root,
    numa: NumaModel::Flat,
    pcpu: PcpuModel::Vcpu,
};

pub(crate) fn name() -> NodeName {
    NodeName::new("n1").unwrap()
}

pub(crate) fn consumer(n: u128) -> ConsumerUuid {
    Uuid::from_u128(n).into()
}

pub(crate) fn class(name: &str) -> ResourceClass {
    ResourceClass::new(name).unwrap()
}

pub(crate) fn root_uuid() -> ProviderUuid {
    Uuid::from_u128(0xffff).into()
}

/// A tree of the bare root.
pub(crate) fn bare() -> ProviderTree {
    ProviderTree::new(Provider::root(root_uuid(), name().root_name().clone()))
}

pub(crate) fn host(node: NodeView) -> HostView {
    HostView {
        hypervisor: HypervisorInfo {
            kind: "fake".to_owned(),
            version: "1".to_owned(),
            hostname: "n1".to_owned(),
        },
        nodes: BTreeMap::from([(name(), node)]),
    }
}

/// Eight CPUs, 8 GiB, 100 GiB, nothing else.
pub(crate) fn node() -> NodeView {
    NodeView {
        uuid: None,
        cpus: NodeCpus {
            online: CpuSet::first(8),
            shared: None,
            dedicated: None,
        },
        memory_mib: 8192,
        disk: NodeDisk::Local { gib: 100 },
        cells: Vec::new(),
        gpus: Vec::new(),
        functions: Vec::new(),
        devices: Vec::new(),
        pci: berth_virt::PciInPlacement::default(),
        customs: Vec::new(),
        encryption_contexts: BTreeMap::new(),
        traits: BTreeSet::new(),
        capabilities: berth_virt::NodeCapabilities::default(),
        guests: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        model: OLD,
    }
}

/// Two cells of half the node each.
pub(crate) fn two_cells() -> Vec<HostNumaCell> {
    ["0-3", "4-7"]
        .iter()
        .enumerate()
        .map(|(id, cpus)| {
            HostNumaCell::new(u32::try_from(id).unwrap(), cpus.parse().unwrap(), 4096)
        })
        .collect()
}

/// The GPU on bus `bus` with `total` units of a class; 0: none offered.
pub(crate) fn gpu(bus: u8, class_name: &str, total: u64) -> PhysicalGpu {
    PhysicalGpu {
        address: format!("{bus:02x}:00.0").parse().unwrap(),
        numa_node: None,
        offered: (total > 0).then(|| OfferedMdevs {
            mdev_type: "nvidia-558".to_owned(),
            class: class(class_name),
            total,
        }),
    }
}

/// The card on bus `bus` with `count` functions.
pub(crate) fn card(bus: u8, count: u8, numa_node: Option<u32>) -> VirtualFunctions {
    VirtualFunctions {
        physical: format!("{bus:02x}:00.0").parse().unwrap(),
        addresses: (0..count)
            .map(|n| format!("{bus:02x}:10.{n}").parse().unwrap())
            .collect(),
        numa_node,
        class: ResourceClass::SRIOV_NET_VF,
    }
}

pub(crate) fn custom(name: &str, formerly: &[&str], total: u64) -> CustomResource {
    CustomResource {
        class: class(name),
        formerly: formerly.iter().map(|name| class(name)).collect(),
        total,
    }
}

pub(crate) fn guest(vcpus: u64, memory_mib: u64) -> GuestView {
    GuestView {
        name: "guest".to_owned(),
        power: PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: GuestCpuPolicy::Shared,
        vcpus,
        memory_mib,
        cells: Vec::new(),
        mdevs: Vec::new(),
        functions: BTreeSet::new(),
    }
}

/// Mediated devices on the GPUs of these buses; bus 0: without a parent.
pub(crate) fn mdevs(buses: &[u8]) -> Vec<GuestMdev> {
    buses
        .iter()
        .map(|bus| GuestMdev {
            uuid: Uuid::from_u128(u128::from(*bus)),
            parent: (*bus > 0).then(|| format!("{bus:02x}:00.0").parse().unwrap()),
        })
        .collect()
}

pub(crate) fn cell(host_cell: u32, vcpus: u64, memory_mib: u64) -> GuestCell {
    GuestCell {
        host_cell,
        vcpus,
        memory_mib,
    }
}

/// The same node under another model.
pub(crate) fn modelled(node: &NodeView, model: ResourceModel) -> NodeView {
    NodeView {
        model,
        ..node.clone()
    }
}

/// The tree after one update of whatever was there, moves left out.
pub(crate) fn reported(node: &NodeView, current: &ProviderTree) -> ProviderTree {
    let desired = provider_tree(&host(node.clone()), current, &name()).unwrap();
    match plan(current, desired, &Usages::new()) {
        Plan::InSync { .. } => current.clone(),
        Plan::Update { diff, .. } => diff.apply(current).unwrap(),
        Plan::ReshapeNeeded(pending) => panic!("{pending}"),
    }
}

pub(crate) fn holding(resources: Resources) -> ConsumerAllocations {
    ConsumerAllocations {
        project_id: "p".to_owned(),
        user_id: "u".to_owned(),
        generation: None,
        resources,
    }
}

/// The guests' allocations on this tree.
pub(crate) fn held(node: &NodeView, tree: &ProviderTree) -> Allocations {
    guest_allocations(node, &name(), tree)
        .into_iter()
        .filter(|(_, resources)| !resources.is_empty())
        .map(|(consumer, resources)| (consumer, holding(resources)))
        .collect()
}

/// The pending reshape, if any.
pub(crate) fn pending(node: &NodeView, current: &ProviderTree) -> Option<PendingReshape> {
    let desired = provider_tree(&host(node.clone()), current, &name()).unwrap();
    match plan(current, desired, &Usages::new()) {
        Plan::ReshapeNeeded(pending) => Some(pending),
        _ => None,
    }
}

pub(crate) fn resolved(
    node: &NodeView,
    pending: PendingReshape,
    held: &Allocations,
) -> Result<ReshapeRequest, ReshapeRefused> {
    let view = host(node.clone());
    let (current, desired) = (pending.current().clone(), pending.desired().tree.clone());
    let trees = TreePair {
        current: &current,
        desired: &desired,
    };
    pending.resolve(held, |allocation, all| {
        homes(&view, &name(), trees, allocation, all)
    })
}

/// One consumer's allocations as `provider CLASS amount`, providers without the node's name.
pub(crate) fn shown(
    allocations: &Allocations,
    trees: [&ProviderTree; 2],
    consumer: ConsumerUuid,
) -> Vec<String> {
    let name_of = |uuid: ProviderUuid| {
        let provider = trees.iter().find_map(|tree| tree.get(uuid));
        let name = provider.map_or_else(|| uuid.to_string(), |p| p.name.to_string());
        name.strip_prefix("n1_").map(str::to_owned).unwrap_or(name)
    };
    let held = allocations.of(&consumer).unwrap();
    let mut lines: Vec<_> = held
        .resources
        .iter()
        .map(|((provider, class), amount)| format!("{} {class} {amount}", name_of(*provider)))
        .collect();
    lines.sort();
    lines
}

/// The upgrade of `node` to `model`: the tree before, the allocations of guests and `others`, and the reshape.
pub(crate) fn upgrade(
    before: &NodeView,
    after: &NodeView,
    others: impl IntoIterator<Item = (ConsumerUuid, Resources)>,
) -> Upgraded {
    let current = reported(before, &bare());
    let mut all = held(before, &current);
    for (consumer, resources) in others {
        all.insert(consumer, holding(resources));
    }
    let pending = pending(after, &current).expect("the model changed");
    let request = resolved(after, pending, &all).unwrap();
    let allocations = request.afterwards(&all);
    Upgraded {
        current,
        request,
        allocations,
    }
}

pub(crate) struct Upgraded {
    pub(crate) current: ProviderTree,
    pub(crate) request: ReshapeRequest,
    pub(crate) allocations: Allocations,
}

impl Upgraded {
    pub(crate) fn shown(&self, consumer: ConsumerUuid) -> Vec<String> {
        let trees = [self.request.tree(), &self.current];
        shown(&self.allocations, trees, consumer)
    }
}
