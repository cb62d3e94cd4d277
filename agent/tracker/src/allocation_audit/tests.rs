//! Tests on a host with two GPUs whose guests have wrong allocations.

use berth_agent_journal::InstanceOverrides;
use berth_agent_journal::samples::{guest, request};
use berth_model::{Allocation, Provider, ProviderName};
use berth_virt::guest_spec::DesiredPower;
use berth_virt::{
    GuestCpuPolicy, GuestMdev, GuestView, HostView, HypervisorInfo, NodeCpus, NodeDisk,
    OfferedMdevs, PciInPlacement, PhysicalGpu, PowerState, ResourceModel, UnreadableGuest,
    VgpuModel, provider_tree,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const GPUS: [&str; 2] = ["0000:84:00.0", "0000:85:00.0"];
const SHARED: &str = "0b0e5f5e-0000-4000-8000-00000000d15c";

fn name() -> NodeName {
    NodeName::new("compute1").unwrap()
}

fn gpu(address: &str) -> PhysicalGpu {
    PhysicalGpu {
        address: address.parse().unwrap(),
        numa_node: None,
        offered: Some(OfferedMdevs {
            mdev_type: "nvidia-558".to_owned(),
            class: ResourceClass::VGPU,
            total: 4,
        }),
    }
}

/// A guest with this number of CPUs and one unit of each GPU.
fn on_gpus(number: u32, vcpus: u64, gpus: &[usize]) -> (ConsumerUuid, GuestView) {
    let mdev = |(place, gpu): (usize, &usize)| GuestMdev {
        uuid: Uuid::from_u128(u128::from(number) << 8 | place as u128),
        parent: Some(GPUS[*gpu].parse().unwrap()),
    };
    let view = GuestView {
        name: format!("guest-{number}"),
        power: PowerState::Running,
        also: BTreeSet::new(),
        cpu_policy: GuestCpuPolicy::Shared,
        vcpus,
        memory_mib: vcpus * 512,
        cells: Vec::new(),
        mdevs: gpus.iter().enumerate().map(mdev).collect(),
        functions: BTreeSet::new(),
    };
    (guest(number), view)
}

struct AuditedNode {
    seen: NodeView,
    tree: ProviderTree,
    held: Allocations,
    journal: Vec<GuestRecord>,
}

impl AuditedNode {
    /// A node on which each guest holds what it uses, and a disk elsewhere.
    fn of(guests: Vec<(ConsumerUuid, GuestView)>) -> Self {
        let seen = NodeView {
            uuid: None,
            cpus: NodeCpus {
                online: "0-31".parse().unwrap(),
                ..NodeCpus::default()
            },
            memory_mib: 65_536,
            disk: NodeDisk::Shared,
            cells: Vec::new(),
            gpus: GPUS.map(gpu).to_vec(),
            functions: Vec::new(),
            devices: Vec::new(),
            pci: PciInPlacement::default(),
            customs: Vec::new(),
            encryption_contexts: BTreeMap::new(),
            traits: BTreeSet::new(),
            capabilities: berth_virt::NodeCapabilities::default(),
            guests: guests.into_iter().collect(),
            unreadable: BTreeMap::new(),
            model: ResourceModel {
                vgpu: VgpuModel::PerGpu,
                ..ResourceModel::default()
            },
        };
        let hypervisor = HypervisorInfo {
            kind: "scripted".into(),
            version: "1".into(),
            hostname: "host".into(),
        };
        let view = HostView {
            hypervisor,
            nodes: BTreeMap::from([(name(), seen.clone())]),
        };
        let root = Uuid::from_u128(1).into();
        let root = Provider::root(root, ProviderName::new("compute1").unwrap());
        let tree = provider_tree(&view, &ProviderTree::new(root), &name());
        let tree = tree.unwrap().tree;
        let claims = guest_allocations(&seen, &name(), &tree);
        let held = claims.into_iter().map(|(consumer, mut resources)| {
            resources.insert((elsewhere(), ResourceClass::DISK_GB), 10);
            (consumer, holding(resources))
        });
        Self {
            held: held.collect(),
            seen,
            tree,
            journal: Vec::new(),
        }
    }

    fn audit(&self) -> Vec<AuditFinding> {
        audit(&AuditInput {
            node: &name(),
            seen: &self.seen,
            tree: &self.tree,
            held: &self.held,
            journal: &self.journal,
        })
    }

    fn gpu(&self, number: usize) -> ProviderUuid {
        let end = format!("_{}", GPUS[number].replace([':', '.'], "_"));
        let all = self.tree.own();
        let gpu = all.iter().find(|it| it.name.as_str().ends_with(&end));
        gpu.expect("a GPU").uuid()
    }

    fn root(&self) -> ProviderUuid {
        self.tree.root().uuid()
    }

    fn change(&mut self, consumer: ConsumerUuid, change: impl FnOnce(&mut Resources)) {
        let mut held = self.held.of(&consumer).cloned();
        let held = held.get_or_insert_with(|| holding(Resources::new()));
        change(&mut held.resources);
        self.held.insert(consumer, held.clone());
    }

    /// Applies the corrected allocations of all guests.
    fn heal(&mut self) {
        for found in self.audit() {
            if let AllocationProblem::Guest { wanted, .. } = found.problem {
                let held = self.held.of(&found.consumer).cloned();
                let held = held.unwrap_or_else(|| holding(Resources::new()));
                let healed = heal_allocations(&held, &self.tree, &wanted);
                self.held.insert(found.consumer, healed);
            }
        }
    }
}

fn world_root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

fn elsewhere() -> ProviderUuid {
    SHARED.parse().unwrap()
}

fn holding(resources: Resources) -> ConsumerAllocations {
    ConsumerAllocations {
        project_id: "p".to_owned(),
        user_id: "u".to_owned(),
        generation: None,
        resources,
    }
}

fn record(number: u32) -> GuestRecord {
    GuestRecord {
        request: request(number, &[]),
        goal: Goal::Spawn,
        power: DesiredPower::Running,
        steps: BTreeMap::new(),
        devices: None,
        overrides: InstanceOverrides::default(),
    }
}

fn words(found: &[AuditFinding]) -> Vec<(ConsumerUuid, &'static str)> {
    let words = found.iter().map(|it| (it.consumer, it.problem.as_str()));
    words.collect()
}

#[test]
fn guests_that_hold_what_they_use_are_not_named() {
    let world = AuditedNode::of(vec![on_gpus(1, 2, &[0]), on_gpus(2, 4, &[0, 1])]);
    assert_eq!(world.audit(), []);
    assert_eq!(AuditedNode::of(Vec::new()).audit(), []);
}

#[test]
fn what_no_guest_is_the_consumer_of_is_an_orphans_but_only_what_is_on_this_tree() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0])]);
    let gpu = world.gpu(1);
    world.change(guest(9), |held| {
        held.insert((gpu, ResourceClass::VGPU), 3);
        held.insert((elsewhere(), ResourceClass::DISK_GB), 5);
    });
    world.change(guest(8), |held| {
        held.insert((elsewhere(), ResourceClass::DISK_GB), 5);
    });
    let found = world.audit();
    let here = Resources::from([((gpu, ResourceClass::VGPU), 3)]);
    let (consumer, problem) = (guest(9), AllocationProblem::Orphan);
    let orphan = AuditFinding {
        consumer,
        here,
        problem,
    };
    assert_eq!(found, [orphan]);
    let held = world.held.of(&consumer).unwrap();
    let left = heal_allocations(held, &world.tree, &Resources::new());
    assert_eq!(
        left.resources,
        Resources::from([((elsewhere(), ResourceClass::DISK_GB), 5)])
    );
}

#[test]
fn a_guest_that_the_agent_is_making_or_that_cannot_be_read_is_no_orphan() {
    let mut world = AuditedNode::of(Vec::new());
    let root = world.root();
    for number in [1, 2] {
        world.change(guest(number), |held| {
            held.insert((root, ResourceClass::VCPU), 1);
        });
    }
    world.journal.push(record(1));
    let unreadable = UnreadableGuest {
        name: "guest-2".to_owned(),
        reason: "no XML".to_owned(),
    };
    world.seen.unreadable.insert(guest(2), unreadable);
    assert_eq!(world.audit(), []);
}

#[test]
fn a_guest_that_the_agent_has_something_to_do_with_or_that_moves_is_not_judged() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0]), on_gpus(2, 2, &[1])]);
    let (first, second) = (guest(1), guest(2));
    world.change(first, Resources::clear);
    world.change(second, Resources::clear);
    world.journal.push(record(1));
    let root = world.root();
    let migration = guest(7);
    let moving = world.seen.guests.get_mut(&second).unwrap();
    moving.also.insert(migration);
    world.change(migration, |held| {
        held.insert((root, ResourceClass::VCPU), 2);
    });
    assert_eq!(world.audit(), []);
}

#[test]
fn a_consumer_that_holds_just_what_a_guest_lacks_may_be_its_migration_and_nothing_is_given_twice() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0]), on_gpus(2, 2, &[1, 1, 1])]);
    let second = guest(2);
    let all = world.held.of(&second).cloned().unwrap().resources;
    world.change(second, Resources::clear);
    world.change(guest(7), |held| *held = all);
    assert_eq!(words(&world.audit()), [(guest(7), "unclear")]);
}

#[test]
fn of_two_moves_that_may_be_either_guests_neither_is_an_orphan() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[]), on_gpus(2, 2, &[])]);
    for (instance, migration) in [(1, 7), (2, 8)] {
        let all = world.held.of(&guest(instance)).cloned().unwrap().resources;
        world.change(guest(instance), Resources::clear);
        world.change(guest(migration), |held| *held = all);
    }
    let found = words(&world.audit());
    let of = |word: &str| -> Vec<_> {
        let of = found.iter().filter(|(_, it)| *it == word);
        of.map(|(consumer, _)| *consumer).collect()
    };
    assert_eq!(of("orphan"), [], "{found:?}");
    assert_eq!(of("unclear"), [guest(7), guest(8)]);
}

#[test]
fn while_a_guest_cannot_be_read_or_lacks_something_nothing_is_an_orphan() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0])]);
    let root = world.root();
    world.change(guest(9), |held| {
        held.insert((root, ResourceClass::VCPU), 7);
    });
    assert_eq!(words(&world.audit()), [(guest(9), "orphan")]);
    let unreadable = UnreadableGuest {
        name: "guest-3".to_owned(),
        reason: "no XML".to_owned(),
    };
    world.seen.unreadable.insert(guest(3), unreadable);
    assert_eq!(words(&world.audit()), [(guest(9), "unclear")]);
    world.seen.unreadable.clear();
    world.change(guest(1), |held| {
        held.remove(&(root, ResourceClass::VCPU));
    });
    let found = words(&world.audit());
    assert_eq!(found, [(guest(1), "guest"), (guest(9), "unclear")]);
    // A consumer that holds a host's resources elsewhere may be moving here.
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0])]);
    world.change(guest(9), |held| {
        held.insert((world_root(), ResourceClass::VCPU), 7);
        held.insert((elsewhere(), ResourceClass::VCPU), 7);
    });
    assert_eq!(words(&world.audit()), [(guest(9), "unclear")]);
}

#[test]
fn a_guest_that_holds_its_processors_elsewhere_is_not_given_them_here() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0])]);
    world.change(guest(1), |held| {
        held.clear();
        held.insert((elsewhere(), ResourceClass::VCPU), 2);
        held.insert((elsewhere(), ResourceClass::MEMORY_MB), 1024);
    });
    assert_eq!(words(&world.audit()), [(guest(1), "guest-unclear")]);
}

#[test]
fn a_unit_of_a_provider_that_is_not_seen_is_not_moved() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0])]);
    let right = world.gpu(0);
    // A device of another service.
    let root = world.root();
    world.change(guest(1), |held| {
        held.remove(&(right, ResourceClass::VGPU));
        held.insert((root, ResourceClass::VGPU), 1);
    });
    assert_eq!(words(&world.audit()), [(guest(1), "guest-unclear")]);
}

#[test]
fn what_is_held_beyond_what_is_seen_stays_when_the_rest_is_healed() {
    let mut world = AuditedNode::of(vec![on_gpus(1, 2, &[0])]);
    let (root, right, wrong) = (world.root(), world.gpu(0), world.gpu(1));
    let consumer = guest(1);
    world.change(consumer, |held| {
        // A flavor with additional CPUs and a custom class; and another GPU.
        held.insert((root, ResourceClass::VCPU), 3);
        held.insert((root, ResourceClass::new("CUSTOM_LICENCE").unwrap()), 1);
        held.remove(&(right, ResourceClass::VGPU));
        held.insert((wrong, ResourceClass::VGPU), 1);
    });
    world.heal();
    assert_eq!(world.audit(), []);
    let held = world.held.of(&consumer).unwrap();
    let of = |provider, class| held.resources.get(&(provider, class)).copied();
    assert_eq!(of(root, ResourceClass::VCPU), Some(3));
    assert_eq!(
        of(root, ResourceClass::new("CUSTOM_LICENCE").unwrap()),
        Some(1)
    );
    assert_eq!(of(right, ResourceClass::VGPU), Some(1));
    assert_eq!(of(wrong, ResourceClass::VGPU), None);
    assert_eq!(of(elsewhere(), ResourceClass::DISK_GB), Some(10));
}

/// Up to five guests with up to three units each.
fn guests_of_all_sorts() -> impl Strategy<Value = Vec<(u64, Vec<usize>)>> {
    let gpus = prop::collection::vec(0..GPUS.len(), 0..3);
    prop::collection::vec((1..4u64, gpus), 0..5)
}

proptest! {
    /// Allocations that were lost or moved within the tree are restored completely by healing.
    #[test]
    fn whatever_guests_lost_is_released(
        guests in guests_of_all_sorts(),
        lost in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..6),
    ) {
        let guests = guests.iter().enumerate();
        let guests = guests.map(|(at, (vcpus, gpus))| on_gpus(at as u32 + 1, *vcpus, gpus));
        let mut world = AuditedNode::of(guests.collect());
        let before = world.held.clone();
        let all: Vec<Allocation> = before.iter().filter(|it| world.tree.is_own(it.provider)).collect();
        if !all.is_empty() {
            for (which, is_moved) in lost {
                let Allocation { consumer, provider, class, .. } = which.get(&all);
                let other = world.gpu(usize::from(*provider == world.gpu(0)));
                world.change(*consumer, |held| {
                    let amount = held.remove(&(*provider, class.clone()));
                    let is_moved = is_moved && *class == ResourceClass::VGPU;
                    if let Some(amount) = amount.filter(|_| is_moved) {
                        *held.entry((other, class.clone())).or_insert(0) += amount;
                    }
                });
            }
        }
        world.heal();
        prop_assert_eq!(&world.held, &before);
        prop_assert_eq!(world.audit(), []);
    }
}
