//! The snapshot of a run without problems: a node was reshaped and became idle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_invariants::*;
use berth_model::{
    ConsumerUuid, Generation, Inventory, Provider, ProviderName, ProviderTree, ProviderUuid,
    ResourceClass, Trait,
};

pub(crate) const NODE: &str = "gpu-01";
pub(crate) const AGENT: &str = "6f2a4c2e";

pub(crate) fn uuid(n: u128) -> ProviderUuid {
    uuid::Uuid::from_u128(n).into()
}

pub(crate) fn root() -> ProviderUuid {
    uuid(1)
}

pub(crate) fn name(text: &str) -> ProviderName {
    ProviderName::new(text).unwrap()
}

pub(crate) fn gpu() -> ProviderUuid {
    root().child(&name("gpu-01_pci_0000_84_00_0"))
}

pub(crate) fn shared() -> ProviderUuid {
    uuid(8)
}

pub(crate) fn other_host() -> ProviderUuid {
    uuid(9)
}

pub(crate) fn guest() -> ConsumerUuid {
    uuid::Uuid::from_u128(0x11).into()
}

/// A consumer without a guest, with a VGPU that is held on the root.
pub(crate) fn orphan() -> ConsumerUuid {
    uuid::Uuid::from_u128(0x12).into()
}

/// A consumer of the other host.
pub(crate) fn foreign_consumer() -> ConsumerUuid {
    uuid::Uuid::from_u128(0x13).into()
}

/// A guest that there was no host for.
fn refused() -> ConsumerUuid {
    uuid::Uuid::from_u128(0x14).into()
}

pub(crate) fn of(total: u64) -> Inventory {
    Inventory::of(total).unwrap()
}

pub(crate) fn holding(used: u64) -> Inventory {
    Inventory::holding(used).unwrap()
}

pub(crate) fn inventories<const N: usize>(
    all: [(ResourceClass, Inventory); N],
) -> BTreeMap<ResourceClass, Inventory> {
    all.into()
}

pub(crate) fn provider(
    name: &str,
    parent: Option<ProviderUuid>,
    root: ProviderUuid,
    generation: i64,
    inventories: BTreeMap<ResourceClass, Inventory>,
) -> ProviderRow {
    ProviderRow {
        name: name.into(),
        parent,
        root,
        generation: Generation::answered(generation),
        inventories,
        traits: BTreeSet::new(),
        aggregates: BTreeSet::new(),
    }
}

pub(crate) fn consumer<const N: usize>(
    allocated: [(ProviderUuid, ResourceClass, u64); N],
) -> ConsumerRow {
    ConsumerRow {
        project_id: "project".into(),
        user_id: "user".into(),
        allocated: allocated
            .into_iter()
            .map(|(provider, class, amount)| ((provider, class), amount))
            .collect(),
    }
}

/// The old model: VGPU on the root.
pub(crate) fn before() -> PlacementSnapshot {
    use ResourceClass as C;
    let mut root_row = provider(
        NODE,
        None,
        root(),
        4,
        inventories([(C::VCPU, of(16)), (C::VGPU, of(8))]),
    );
    root_row.traits.insert(Trait::COMPUTE_NODE);
    PlacementSnapshot {
        providers: BTreeMap::from([
            (root(), root_row),
            (
                shared(),
                provider(
                    "nfs",
                    None,
                    shared(),
                    2,
                    inventories([(C::DISK_GB, of(100))]),
                ),
            ),
            (
                other_host(),
                provider(
                    "gpu-02",
                    None,
                    other_host(),
                    7,
                    inventories([(C::VCPU, of(16))]),
                ),
            ),
        ]),
        consumers: BTreeMap::from([
            (
                guest(),
                consumer([
                    (root(), C::VCPU, 4),
                    (root(), C::VGPU, 2),
                    (shared(), C::DISK_GB, 20),
                ]),
            ),
            (
                orphan(),
                consumer([(root(), C::VCPU, 2), (root(), C::VGPU, 1)]),
            ),
            (foreign_consumer(), consumer([(other_host(), C::VCPU, 8)])),
        ]),
    }
}

/// The new one: VGPU on a child, the orphan's unit held on the root.
pub(crate) fn after() -> PlacementSnapshot {
    use ResourceClass as C;
    let mut world = before();
    let child = provider(
        "gpu-01_pci_0000_84_00_0",
        Some(root()),
        root(),
        2,
        inventories([(C::VGPU, of(8))]),
    );
    world.providers.insert(gpu(), child);
    let root_row = world.providers.get_mut(&root()).unwrap();
    root_row.generation = Generation::answered(6);
    root_row.inventories.insert(C::VGPU, holding(1));
    let row = world.consumers.get_mut(&guest()).unwrap();
    row.allocated.remove(&(root(), C::VGPU));
    row.allocated.insert((gpu(), C::VGPU), 2);
    world
}

pub(crate) fn desired() -> ProviderTree {
    let mut root_provider = Provider::root(root(), name(NODE));
    root_provider
        .inventories
        .insert(ResourceClass::VCPU, of(16));
    root_provider.traits.insert(Trait::COMPUTE_NODE);
    let mut tree = ProviderTree::new(root_provider);
    let mut child = Provider::child(gpu(), name("gpu-01_pci_0000_84_00_0"), root());
    child.inventories.insert(ResourceClass::VGPU, of(8));
    tree.insert(child).unwrap();
    tree
}

pub(crate) fn request(facts: Vec<Fact>, based_on: &[(ProviderUuid, i64)]) -> PlacementWrite {
    PlacementWrite {
        sender: AGENT.into(),
        node: Some(NODE.into()),
        facts,
        based_on: based_on
            .iter()
            .map(|(provider, generation)| (*provider, Generation::answered(*generation)))
            .collect(),
        answer: Answer::Acknowledged,
    }
}

pub(crate) fn step(seconds: u64, kind: StepKind, operation: &str) -> Step {
    Step {
        at: Duration::from_secs(seconds),
        task: "startup".into(),
        boundary: StepBoundary::Http,
        kind,
        operation: operation.into(),
    }
}

pub(crate) fn pass(began: u64, ended: u64, end: PassOutcome) -> Pass {
    Pass {
        loop_name: "tick".into(),
        began: Duration::from_secs(began),
        ended: Duration::from_secs(ended),
        end,
    }
}

/// The child is made, then the reshape sent.
fn requests() -> Vec<PlacementWrite> {
    let now = after();
    let all = |uuid| now.providers[&uuid].inventories.clone();
    let make = Fact::Provider {
        uuid: gpu(),
        name: "gpu-01_pci_0000_84_00_0".into(),
        parent: Some(root()),
    };
    let reshape = vec![
        Fact::Inventories(root(), all(root())),
        Fact::Inventories(gpu(), all(gpu())),
        Fact::Allocations(guest(), now.consumers[&guest()].allocated.clone()),
    ];
    vec![
        request(vec![make], &[]),
        request(reshape, &[(root(), 4), (gpu(), 0)]),
    ]
}

/// The n-th accelerator request.
pub(crate) fn arq(n: u128) -> berth_model::ArqUuid {
    uuid::Uuid::from_u128(0xa0 + n).into()
}

pub(crate) fn snapshot() -> SystemSnapshot {
    let read = |seconds| {
        step(
            seconds,
            StepKind::Read,
            "GET /resource_providers/{uuid}/usages",
        )
    };
    SystemSnapshot {
        placement: after(),
        guests: BTreeMap::from([(
            guest(),
            Guest {
                node: NODE.into(),
                migrations: BTreeSet::new(),
                devices: BTreeSet::from(["mdev-1".to_owned()]),
            },
        )]),
        accelerators: Some(AcceleratorSnapshot {
            requests: BTreeMap::from([(
                arq(1),
                ArqRow {
                    phase: berth_model::ArqPhase::Bound,
                    instance: Some(guest()),
                    device: Some("mdev-1".into()),
                },
            )]),
            free: BTreeSet::from(["mdev-2".to_owned()]),
        }),
        groups: BTreeMap::from([(
            "apart".to_owned(),
            ServerGroup {
                most_on_a_node: Some(1),
                members: BTreeMap::from([(guest(), NODE.to_owned())]),
                // The other one was refused.
                requested: BTreeSet::from([guest(), refused()]),
            },
        )]),
        listed_by_api: BTreeMap::from([("agent".to_owned(), BTreeSet::from([guest()]))]),
        users_since_reset: BTreeMap::from([("mdev-1".to_owned(), BTreeSet::from([guest()]))]),
        devices: vec![Device {
            name: "mdev-1".into(),
            owners: BTreeSet::from([guest()]),
        }],
        journals: vec![Journal {
            name: "spawn".into(),
            open: Vec::new(),
        }],
        trace: vec![
            step(0, StepKind::Read, "GET /resource_providers?in_tree={uuid}"),
            step(1, StepKind::Write, "POST /resource_providers"),
            step(2, StepKind::Write, "POST /reshaper"),
        ],
        histories: Histories {
            began: Some(before()),
            requests: requests(),
            generations: vec![
                (root(), Generation::answered(4)),
                (gpu(), Generation::answered(0)),
                (root(), Generation::answered(6)),
            ],
            reshapes: vec![Reshape {
                root: root(),
                before: before(),
                after: after(),
                one_class: Vec::new(),
            }],
            refusals: vec![RefusedReshape {
                before: before(),
                after: before(),
            }],
            tasks: vec![
                TaskRecord {
                    name: "startup".into(),
                    end: TaskOutcome::Done,
                },
                TaskRecord {
                    name: "tick".into(),
                    end: TaskOutcome::Held("an orphan".into()),
                },
            ],
            passes: vec![
                pass(0, 1, PassOutcome::Failed),
                pass(3, 4, PassOutcome::Failed),
                pass(8, 9, PassOutcome::Settled),
                pass(9, 10, PassOutcome::Settled),
            ],
            limits: Some(LoopLimits {
                requests_per_minute: 5,
                longest_pause: Duration::from_secs(72),
            }),
            exits: vec![Exit::Code(0), Exit::Code(75), Exit::Killed],
            texts: vec![OutputText {
                source: "log".into(),
                text: "tree reshaped".into(),
            }],
            secrets: vec!["correct horse".into()],
        },
        desired: BTreeMap::from([(NODE.to_owned(), desired())]),
        reported: AgentReport {
            held: BTreeSet::from([(root(), ResourceClass::VGPU)]),
            orphans: BTreeSet::new(),
            ..AgentReport::default()
        },
        quiet_ticks: Some(vec![vec![read(70)], vec![read(130)]]),
    }
}

/// One more guest on the node, of the same server group.
pub(crate) fn another_guest_joins(snapshot: &mut SystemSnapshot) {
    let row = consumer([(root(), ResourceClass::VCPU, 8)]);
    let claim = Fact::Allocations(foreign_consumer(), row.allocated.clone());
    snapshot.histories.requests.push(PlacementWrite {
        sender: "scheduler".into(),
        node: None,
        ..request(vec![claim], &[])
    });
    snapshot.placement.consumers.insert(foreign_consumer(), row);
    let joined = Guest {
        node: NODE.into(),
        ..Guest::default()
    };
    snapshot.guests.insert(foreign_consumer(), joined);
    snapshot
        .listed_by_api
        .get_mut("agent")
        .unwrap()
        .insert(foreign_consumer());
    let group = snapshot.groups.get_mut("apart").unwrap();
    group.members.insert(foreign_consumer(), NODE.to_owned());
    group.requested.insert(foreign_consumer());
}

#[test]
fn a_good_run_breaks_no_promise() {
    assert_eq!(audit(&snapshot()), []);
    assert_eq!(audit_at_rest(&snapshot()), []);
}

#[test]
fn unknown_parts_are_not_checked() {
    assert_eq!(audit_at_rest(&SystemSnapshot::default()), []);
}
