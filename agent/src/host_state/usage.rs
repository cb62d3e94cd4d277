//! The usage of a node's CPUs, memory and disk by guests, as Nova counts it: reserved amounts count as used, and a
//! guest counts with its flavor from the request on. Pure.

use std::collections::BTreeSet;

use berth_agent_journal::{GuestRecord, GuestRequest};
use berth_model::{ConsumerUuid, ProviderTree, ResourceClass};
use berth_virt::NodeDisk;

use crate::host_state::node_facts::NodeFacts;

/// Total and used amount of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) total: u64,
    pub(super) used: u64,
}

/// Totals and usage of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NodeUse {
    pub(super) vcpus: Use,
    pub(super) memory_mib: Use,
    pub(super) disk_gib: Use,
}

impl NodeUse {
    pub(super) fn of(facts: &NodeFacts<'_>) -> Self {
        let (seen, tree) = (facts.seen, facts.tree);
        let cpus = seen.cpus.shared_online().len() + seen.cpus.dedicated_online().len();
        let total = |total, class| Use {
            total,
            used: reserved(tree, &class),
        };
        let mut all = Self {
            vcpus: total(cpus as u64, ResourceClass::VCPU),
            memory_mib: total(seen.memory_mib, ResourceClass::MEMORY_MB),
            disk_gib: total(disk(facts), ResourceClass::DISK_GB),
        };
        let mut known: BTreeSet<ConsumerUuid> = BTreeSet::new();
        for record in facts.own_records() {
            let spec = record.request.spec();
            all.add(
                u64::from(spec.topology.vcpus()).saturating_add(isolated(&record.request)),
                spec.topology.memory_mib(),
                disks(record),
            );
            known.insert(record.request.uuid());
        }
        // The disks of guests that Berth did not create are unknown.
        for (uuid, guest) in &seen.guests {
            if !known.contains(uuid) {
                all.add(guest.vcpus, guest.memory_mib, 0);
            }
        }
        all
    }

    fn add(&mut self, vcpus: u64, memory_mib: u64, disk_gib: u64) {
        let uses = [&mut self.vcpus, &mut self.memory_mib, &mut self.disk_gib];
        for (of, more) in uses.into_iter().zip([vcpus, memory_mib, disk_gib]) {
            of.used = of.used.saturating_add(more);
        }
    }
}

/// CPUs for emulator threads only (`hw:emulator_threads_policy` isolate): Nova counts them in addition to the flavor's.
fn isolated(request: &GuestRequest) -> u64 {
    let Some(pinning) = request.spec().topology.pinning() else {
        return 0;
    };
    let kept = pinning.emulator().intersection(&request.reserved_cpus());
    kept.difference(&pinning.dedicated()).len() as u64
}

/// The amount of a class that is reserved for the host, over the node's own providers.
fn reserved(tree: &ProviderTree, class: &ResourceClass) -> u64 {
    let own = tree.own().into_iter();
    let inventories = own.filter_map(|provider| provider.inventories.get(class));
    let lasting = inventories.filter(|inventory| !inventory.is_held());
    lasting.map(|inventory| u64::from(inventory.reserved)).sum()
}

/// The node's local disk, or the disk of its sharing providers.
fn disk(facts: &NodeFacts<'_>) -> u64 {
    match facts.seen.disk {
        NodeDisk::Local { gib } => gib,
        NodeDisk::None => 0,
        NodeDisk::Shared => {
            let sharing = facts.tree.sharing().into_iter();
            let shared = sharing.filter_map(|it| it.inventories.get(&ResourceClass::DISK_GB));
            shared.map(|inventory| u64::from(inventory.total)).sum()
        }
    }
}

/// The size of a guest's disks in GiB.
fn disks(record: &GuestRecord) -> u64 {
    let plan = record.request.disks();
    let ephemeral: u64 = plan.ephemeral_gib().iter().sum();
    plan.root_gib().saturating_add(ephemeral)
}
