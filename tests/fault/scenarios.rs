//! The scenarios of the node sweep, and the worlds that they start in.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_agent_tracker::options::{Rename, TrackerOptions};
use berth_model::{ProviderUuid, ResourceClass, Trait};
use berth_tests::claims::{Claim, Neighbours, add, claim, join, neighbours};
use berth_tests::cloud::{Cloud, Snapshot};
use berth_tests::host::{Host, consumer, gpu};
use berth_tests::node::{COMPUTE_ID, MemoryFiles, Node};
use berth_tests::worlds::PlacementRows;
use berth_virt::{DeviceOwner, VgpuModel};
use uuid::Uuid;

/// A scenario of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FaultScenario {
    Tick,
    StartupReshape,
    Greenfield,
    Rename,
    LinkGroups,
}

impl FaultScenario {
    pub(crate) const ALL: [FaultScenario; 5] = [
        FaultScenario::Tick,
        FaultScenario::StartupReshape,
        FaultScenario::Greenfield,
        FaultScenario::Rename,
        FaultScenario::LinkGroups,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            FaultScenario::Tick => "tick",
            FaultScenario::StartupReshape => "startup_reshape",
            FaultScenario::Greenfield => "greenfield",
            FaultScenario::Rename => "rename",
            FaultScenario::LinkGroups => "link_groups",
        }
    }
}

/// When a scenario's effects begin to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountFrom {
    /// From the first of its process.
    AtStart,
    /// Once its process has started, and the host has changed.
    WhenReady,
}

/// The world that a scenario starts in.
#[derive(Debug)]
pub(crate) struct Situation {
    pub(crate) journey: FaultScenario,
    pub(crate) begins: CountFrom,
    pub(crate) snapshot: Snapshot,
    pub(crate) files: BTreeMap<String, String>,
    /// The host as it was seen before.
    pub(crate) was: Host,
    /// The host as it is.
    pub(crate) is: Host,
    pub(crate) options: TrackerOptions,
    pub(crate) before: PlacementRows,
    /// What each consumer holds afterwards, by hand.
    pub(crate) expected: BTreeMap<u32, BTreeMap<String, u64>>,
}

impl Situation {
    pub(crate) async fn of(scenario: FaultScenario) -> Self {
        match scenario {
            FaultScenario::Tick => tick().await,
            FaultScenario::StartupReshape => startup_reshape().await,
            FaultScenario::Greenfield => greenfield().await,
            FaultScenario::Rename => rename().await,
            FaultScenario::LinkGroups => link_groups().await,
        }
    }
}

/// A node that ran before, in a cloud with neighbours.
struct SeededNode {
    cloud: Cloud,
    files: Arc<MemoryFiles>,
    node: Node,
    root: ProviderUuid,
    neighbours: Neighbours,
}

async fn seeded(host: &Host) -> SeededNode {
    let cloud = Cloud::in_process().await;
    let placement = cloud.placement();
    let neighbours = neighbours(&placement).await;
    let files = Arc::new(MemoryFiles::default());
    let node = Node::with_files(host, files.clone());
    node.start(&cloud).await.unwrap();
    let root = node.root().await;
    join(&placement, root, neighbours.aggregate).await;
    let cyborgs = Uuid::from_u128(0xacc).into();
    let fpga = [("FPGA".parse().unwrap(), 2)];
    let name = format!("{}_FPGA_1", host.name());
    add(
        &placement,
        cyborgs,
        &name,
        Some(root),
        &fpga,
        &[Trait::OWNER_CYBORG],
    )
    .await;
    SeededNode {
        cloud,
        files,
        node,
        root,
        neighbours,
    }
}

impl SeededNode {
    async fn situation(self, scenario: FaultScenario, was: Host, is: Host) -> Situation {
        Situation {
            journey: scenario,
            begins: CountFrom::AtStart,
            snapshot: Snapshot::take(self.cloud.store().unwrap()).await,
            files: self.files.content(),
            was,
            is,
            options: self.node.options.clone(),
            before: self.cloud.rows().await,
            expected: BTreeMap::new(),
        }
    }
}

type HoldingFuture<'a> = (u32, &'a [(&'a str, u64)]);

fn expected(holdings: &[HoldingFuture<'_>]) -> BTreeMap<u32, BTreeMap<String, u64>> {
    let places = |places: &[(&str, u64)]| {
        let place = |(place, amount): &(&str, u64)| ((*place).to_owned(), *amount);
        places.iter().map(place).collect()
    };
    holdings
        .iter()
        .map(|(n, holding)| (*n, places(holding)))
        .collect()
}

/// Memory grows, one GPU comes and a free one goes, the processor's microcode brings a feature.
async fn tick() -> Situation {
    let was = Host::new("gpu-01").gpu(4).gpu(4).on_shared_storage();
    let was = was.guest(0, &[0]).guest(1, &[0]);
    let is = was.clone().without_gpu(1).gpu_number(2, 8);
    let is = is
        .quality("HW_CPU_X86_AVX2")
        .with(|node| node.memory_mib = 300_000);
    let seeded = seeded(&was).await;
    let root = seeded.root;
    let gpu = root.child(&was.gpu_provider(0));
    let claims = (0..2).map(|n| {
        let claim = Claim::of(consumer(n)).and_a_guest(root);
        claim.and(gpu, &ResourceClass::VGPU, 1)
    });
    claim(&seeded.cloud.placement(), claims.collect()).await;
    let vgpu = format!("{} VGPU", was.gpu_provider(0));
    let holds = [
        ("gpu-01 VCPU", 1),
        ("gpu-01 MEMORY_MB", 256),
        (vgpu.as_str(), 1),
    ];
    Situation {
        begins: CountFrom::WhenReady,
        expected: expected(&[(0, &holds), (1, &holds)]),
        ..seeded.situation(FaultScenario::Tick, was, is).await
    }
}

/// VGPU moves from the root to each GPU, for seven consumers: an orphan, one with units on both GPUs, one with shares
/// of the storage and of another host, one with only a virtual GPU, and a migration among them.
async fn startup_reshape() -> Situation {
    let is = Host::new("gpu-01").gpu(4).gpu(4).on_shared_storage();
    let is = is
        .guest(0, &[0])
        .guest(1, &[1])
        .guest(2, &[0, 1])
        .guest(4, &[1])
        .guest(5, &[0]);
    let is = is.guest_as(7, |guest| {
        guest.mdevs = berth_tests::host::guest(7, &[1]).mdevs;
        guest.also.insert(consumer(6));
    });
    let was = is.clone().modelled(|model| model.vgpu = VgpuModel::Root);
    let seeded = seeded(&was).await;
    let (root, vgpu) = (seeded.root, ResourceClass::VGPU);
    let Neighbours { storage, other, .. } = seeded.neighbours;
    let guest = |n| Claim::of(consumer(n)).and_a_guest(root);
    let claims = vec![
        guest(0).and(root, &vgpu, 1),
        guest(1).and(root, &vgpu, 1),
        guest(2).and(root, &vgpu, 2),
        guest(3).and(root, &vgpu, 1),
        guest(4)
            .and(root, &vgpu, 1)
            .and(storage, &ResourceClass::DISK_GB, 20)
            .and(other, &ResourceClass::VCPU, 1),
        Claim::of(consumer(5)).and(root, &vgpu, 1),
        guest(6).and(root, &vgpu, 1).migrating(),
    ];
    claim(&seeded.cloud.placement(), claims).await;
    let [a, b] = [0, 1].map(|n| format!("{} VGPU", is.gpu_provider(n)));
    let (cpu, memory) = (("gpu-01 VCPU", 1), ("gpu-01 MEMORY_MB", 256));
    Situation {
        expected: expected(&[
            (0, &[cpu, memory, (&a, 1)]),
            (1, &[cpu, memory, (&b, 1)]),
            (2, &[cpu, memory, (&a, 1), (&b, 1)]),
            (3, &[cpu, memory, ("gpu-01 VGPU", 1)]),
            (
                4,
                &[
                    cpu,
                    memory,
                    (&b, 1),
                    ("storage DISK_GB", 20),
                    ("other-01 VCPU", 1),
                ],
            ),
            (5, &[(&a, 1)]),
            (6, &[cpu, memory, (&b, 1)]),
        ]),
        ..seeded
            .situation(FaultScenario::StartupReshape, was, is)
            .await
    }
}

/// A host that was never reported.
async fn greenfield() -> Situation {
    let host = Host::new("gpu-01")
        .gpu(4)
        .gpu(4)
        .quality("HW_CPU_X86_AVX2")
        .quality("CUSTOM_RACK_7");
    let host = host.custom("CUSTOM_TPM", &[], 4);
    let cloud = Cloud::in_process().await;
    neighbours(&cloud.placement()).await;
    Situation {
        journey: FaultScenario::Greenfield,
        begins: CountFrom::AtStart,
        snapshot: Snapshot::take(cloud.store().unwrap()).await,
        files: BTreeMap::new(),
        was: host.clone(),
        is: host,
        options: TrackerOptions::default(),
        before: cloud.rows().await,
        expected: BTreeMap::new(),
    }
}

/// The host has a new name, which an operator accepts.
async fn rename() -> Situation {
    let was = Host::new("gpu-01")
        .gpu(4)
        .gpu(4)
        .on_shared_storage()
        .guest(0, &[0])
        .guest(1, &[1]);
    let is = was.clone().named("gpu-02");
    let seeded = seeded(&was).await;
    let root = seeded.root;
    let claims = (0..2u8).map(|n| {
        let gpu = root.child(&was.gpu_provider(n));
        Claim::of(consumer(u32::from(n)))
            .and_a_guest(root)
            .and(gpu, &ResourceClass::VGPU, 1)
    });
    claim(&seeded.cloud.placement(), claims.collect()).await;
    let [a, b] = [0, 1].map(|n| format!("{} VGPU", is.gpu_provider(n)));
    let (cpu, memory) = (("gpu-02 VCPU", 1), ("gpu-02 MEMORY_MB", 256));
    let mut situation = seeded.situation(FaultScenario::Rename, was, is).await;
    situation.options.rename = Rename::Accept;
    situation.expected = expected(&[(0, &[cpu, memory, (&a, 1)]), (1, &[cpu, memory, (&b, 1)])]);
    assert!(situation.files.contains_key(COMPUTE_ID));
    situation
}

/// Two GPUs become a link group, and the group that one of them was in goes. Each is in a guest.
async fn link_groups() -> Situation {
    let host = |groups: [Option<&str>; 2]| {
        let owners = [DeviceOwner::Compute, DeviceOwner::Accelerator];
        let gpus = (0..).zip(owners.into_iter().zip(groups));
        gpus.fold(Host::new("gpu-01"), |host, (n, (owner, group))| {
            let host = host.whole_gpu(n, owner, group);
            host.guest_as(n.into(), |guest| guest.functions = [gpu(n)].into())
        })
    };
    let was = host([None, Some("old")]);
    let is = host([Some("bridge"), Some("bridge")]);
    let seeded = seeded(&was).await;
    let root = seeded.root;
    let gpus = was.view().nodes[was.name()].devices.clone();
    let claims = (0..).zip(&gpus).map(|(n, gpu)| {
        let claim = Claim::of(consumer(n)).and_a_guest(root);
        claim.and(gpu.provider_uuid(was.name(), root), &gpu.class, 1)
    });
    claim(&seeded.cloud.placement(), claims.collect()).await;
    let [a, b] = [0, 1].map(|n: usize| {
        let name = gpus[n].provider_name(was.name());
        format!("{name} {}", gpus[n].class)
    });
    let (cpu, memory) = (("gpu-01 VCPU", 1), ("gpu-01 MEMORY_MB", 256));
    Situation {
        expected: expected(&[(0, &[cpu, memory, (&a, 1)]), (1, &[cpu, memory, (&b, 1)])]),
        ..seeded.situation(FaultScenario::LinkGroups, was, is).await
    }
}
