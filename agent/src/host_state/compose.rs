//! Composes a node's state for the scheduler from the observation, the journal and the provider tree. Pure.

use std::collections::BTreeMap;

use berth_agent_journal::{Goal, GuestRecord, SpawnStep, StepState, TransitionKind};
use berth_model::{ProviderTree, ResourceClass};
use berth_wire::host_state::{NodeInstanceBody, NodeStateBody};
use uuid::Uuid;

use crate::host_state::node_facts::{NodeFacts, whole};
use crate::host_state::usage::NodeUse;
use crate::host_state::{cpu_info, numa, pci};

impl<'a> NodeFacts<'a> {
    /// The guests of the journal that use, or will use, resources of this node.
    pub(super) fn own_records(&self) -> impl Iterator<Item = &'a GuestRecord> + Clone {
        let node = self.node;
        let records = self.records.iter().copied();
        records.filter(move |record| record.request.node() == node && record.may_hold())
    }
}

/// The node's state as reported to the scheduler.
#[must_use]
pub fn node_state(facts: &NodeFacts<'_>) -> NodeStateBody {
    let used = NodeUse::of(facts);
    let processor = facts.seen.capabilities.processor.as_ref();
    let supported = facts.seen.capabilities.supported_instances.iter();
    let supported = supported.map(|kind| {
        [
            kind.arch.clone(),
            kind.hv_type.clone(),
            kind.vm_mode.clone(),
        ]
    });
    let ratio = |class| ratio(facts.tree, &class);
    NodeStateBody {
        uuid: *facts.tree.root().uuid().as_uuid(),
        hypervisor_hostname: facts.node.to_string(),
        hypervisor_type: facts.hypervisor.kind.clone(),
        hypervisor_version: version(&facts.hypervisor.version),
        host_ip: facts.host_ip,
        vcpus: whole(used.vcpus.total),
        vcpus_used: whole(used.vcpus.used),
        memory_mb: whole(used.memory_mib.total),
        memory_mb_used: whole(used.memory_mib.used),
        local_gb: whole(used.disk_gib.total),
        local_gb_used: whole(used.disk_gib.used),
        disk_available_least: None,
        cpu_allocation_ratio: ratio(ResourceClass::VCPU),
        ram_allocation_ratio: ratio(ResourceClass::MEMORY_MB),
        disk_allocation_ratio: ratio(ResourceClass::DISK_GB),
        cpu_info: processor.map(cpu_info::text),
        supported_instances: supported.collect(),
        instances: instances(facts),
        num_io_ops: whole(facts.own_records().filter(|it| is_io_heavy(it)).count() as u64),
        failed_builds: i64::from(facts.failed_builds),
        stats: BTreeMap::new(),
        metrics: facts.metrics.cloned(),
        pci_device_pools: pci::pools(facts),
        numa_topology: numa::cells(facts),
    }
}

/// The guests on the node: those of the journal, and others on the hypervisor, of which only the UUID is known.
fn instances(facts: &NodeFacts<'_>) -> BTreeMap<Uuid, NodeInstanceBody> {
    let on_host = facts.seen.guests.keys().chain(facts.seen.unreadable.keys());
    let on_host = on_host.map(|uuid| (*uuid.as_uuid(), NodeInstanceBody::default()));
    let own = facts.own_records().map(|record| {
        let facts = record.request.host_placement().scheduling_facts();
        let body = NodeInstanceBody {
            // A flavor's name is its ID here.
            flavorid: facts.flavor.clone(),
            image_properties: facts.image_properties.clone(),
        };
        (*record.request.uuid().as_uuid(), body)
    });
    // The journal takes precedence over the hypervisor.
    on_host.chain(own).collect()
}

/// Whether an operation that keeps disks busy is running: build, rebuild or rescue.
fn is_io_heavy(record: &GuestRecord) -> bool {
    let is_built = record.goal == Goal::Spawn
        && record.ran_in().is_empty()
        && record.state(SpawnStep::Start) != Some(StepState::Done);
    let transition = record.overrides.transition.as_ref();
    is_built
        || transition
            .is_some_and(|it| matches!(it.kind, TransitionKind::Rebuild | TransitionKind::Rescue))
}

/// The allocation ratio of a class on the node's own providers, the root first; 1 if none has the class.
fn ratio(tree: &ProviderTree, class: &ResourceClass) -> f64 {
    let own = tree.own().into_iter();
    let mut inventories = own.filter_map(|provider| provider.inventories.get(class));
    let inventory = inventories.find(|inventory| !inventory.is_held());
    inventory.map_or(1.0, |inventory| inventory.allocation_ratio.as_f64())
}

/// A version as Nova's number: `7.2.13` is 7002013; `None` for any other form.
fn version(text: &str) -> Option<i64> {
    let mut parts = text.trim().split('.').map(|part| part.parse::<i64>().ok());
    let [major, minor, micro] = [
        parts.next()?,
        parts.next().unwrap_or(Some(0)),
        parts.next().unwrap_or(Some(0)),
    ];
    let (major, minor, micro) = (major?, minor?, micro?);
    let is_one = (0..1_000_000).contains(&major)
        && (0..1000).contains(&minor)
        && (0..1000).contains(&micro)
        && parts.next().is_none();
    is_one.then_some(major * 1_000_000 + minor * 1000 + micro)
}

#[cfg(test)]
mod tests;
