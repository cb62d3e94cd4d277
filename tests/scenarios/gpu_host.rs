//! A host with GPUs and guests on them, as scenarios want it.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::PlacementClient;
use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, NodeName, PciAddress, ProviderUuid,
    ResourceClass,
};
use berth_virt::{
    CpuPolicy, CpuSet, Cpus, Disk, GuestMdev, GuestView, HostView, Hypervisor, NodeView,
    OfferedMdevs, PhysicalGpu, PowerState, ResourceModel, VgpuModel,
};
use uuid::Uuid;

/// A host of `gpus` GPUs with 4 units each, and guests that each hold one unit, on the GPUs in turn.
pub(crate) fn view(node: &str, gpus: u8, guests: u32, vgpu: VgpuModel) -> HostView {
    let gpu = |n: u8| {
        format!("0000:{:02x}:00.0", 0x80 + n)
            .parse::<PciAddress>()
            .unwrap()
    };
    let seen = NodeView {
        uuid: None,
        cpus: Cpus {
            online: CpuSet::first(64),
            shared: None,
            dedicated: None,
        },
        memory_mib: 262_144,
        disk: Disk::Local { gib: 2000 },
        cells: Vec::new(),
        gpus: (0..gpus)
            .map(|n| PhysicalGpu {
                address: gpu(n),
                numa_node: None,
                offered: Some(OfferedMdevs {
                    mdev_type: "nvidia-558".to_owned(),
                    class: ResourceClass::VGPU,
                    total: u64::from(guests.div_ceil(u32::from(gpus))).max(4),
                }),
            })
            .collect(),
        functions: Vec::new(),
        customs: Vec::new(),
        traits: BTreeSet::new(),
        guests: (0..guests)
            .map(|n| {
                let parent = gpu(u8::try_from(n % u32::from(gpus)).unwrap());
                (consumer(n), guest(n, &[parent]))
            })
            .collect(),
        model: ResourceModel {
            vgpu,
            ..ResourceModel::default()
        },
    };
    HostView {
        hypervisor: Hypervisor {
            kind: "fake".to_owned(),
            version: "1".to_owned(),
            hostname: node.to_owned(),
        },
        nodes: BTreeMap::from([(NodeName::new(node).unwrap(), seen)]),
    }
}

/// The n-th guest's consumer.
pub(crate) fn consumer(n: u32) -> ConsumerUuid {
    Uuid::from_u128(0xc0_0000 + u128::from(n)).into()
}

/// A guest with one unit on each of these GPUs.
pub(crate) fn guest(n: u32, on: &[PciAddress]) -> GuestView {
    GuestView {
        name: format!("instance-{n:08x}"),
        power: PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: CpuPolicy::Shared,
        vcpus: 1,
        memory_mib: 256,
        cells: Vec::new(),
        mdevs: on
            .iter()
            .enumerate()
            .map(|(i, parent)| GuestMdev {
                uuid: Uuid::from_u128((u128::from(n) << 8) + i as u128),
                parent: Some(*parent),
            })
            .collect(),
        functions: BTreeSet::new(),
    }
}

/// Claims one VGPU, one VCPU and 256 MiB on the root for each of these guests.
pub(crate) async fn claim(placement: &PlacementClient, root: ProviderUuid, guests: u32) {
    for n in 0..guests {
        let resources = BTreeMap::from([
            ((root, ResourceClass::VCPU), 1),
            ((root, ResourceClass::MEMORY_MB), 256),
            ((root, ResourceClass::VGPU), 1),
        ]);
        let held = ConsumerAllocations {
            project_id: "project".to_owned(),
            user_id: "user".to_owned(),
            generation: None,
            resources,
        };
        placement.put_allocations(consumer(n), &held).await.unwrap();
    }
}

/// All that these guests hold, as Placement tells it.
pub(crate) async fn held(placement: &PlacementClient, guests: u32) -> Allocations {
    let mut held = Allocations::none();
    for n in 0..guests {
        if let Some(of) = placement.allocations(consumer(n)).await.unwrap() {
            held.insert(consumer(n), of);
        }
    }
    held
}
