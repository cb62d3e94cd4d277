//! Converts one compute node of an agent's report into the scheduler's [`HostState`]. Pure.
//!
//! [`crate::scheduling_states`] then adds what changes without a report: service, aggregates, host and cell.

use std::collections::BTreeMap;

use berth_scheduler::host_state::{
    Aggregates, Capability, CpuInfo, HostState, Instance, Instances, NumaTopology, PciPools,
    ServiceState,
};
use berth_scheduler::request::ImageProperties;
use berth_wire::host_state::{NodeInstanceBody, NodeStateBody};
use serde::Deserialize as _;

/// One GiB in MiB.
const MIB: i64 = 1_024;

/// The scheduler's state of a node, still without host, cell, service and aggregates. As in Nova, free amounts do not
/// include the allocation ratios.
pub(crate) fn from_report(node: NodeStateBody) -> HostState {
    let free_gb = node.local_gb.saturating_sub(node.local_gb_used);
    // Use the actually free space if it is less than the unallocated space.
    let free_gb = node
        .disk_available_least
        .map_or(free_gb, |least| least.min(free_gb));
    HostState {
        host: String::new(),
        nodename: node.hypervisor_hostname,
        uuid: node.uuid.to_string(),
        cell: String::new(),
        host_ip: node.host_ip,
        total_usable_ram_mb: node.memory_mb,
        free_ram_mb: node.memory_mb.saturating_sub(node.memory_mb_used),
        total_usable_disk_gb: node.local_gb,
        free_disk_mb: free_gb.saturating_mul(MIB),
        vcpus_total: node.vcpus,
        vcpus_used: node.vcpus_used,
        num_instances: i64::try_from(node.instances.len()).unwrap_or(i64::MAX),
        num_io_ops: node.num_io_ops,
        failed_builds: node.failed_builds,
        ram_allocation_ratio: node.ram_allocation_ratio,
        cpu_allocation_ratio: node.cpu_allocation_ratio,
        disk_allocation_ratio: node.disk_allocation_ratio,
        hypervisor_type: node.hypervisor_type,
        hypervisor_version: node.hypervisor_version,
        cpu_info: node.cpu_info.map(CpuInfo::new),
        supported_instances: node.supported_instances,
        stats: node.stats.into_iter().map(stat).collect(),
        service: ServiceState::default(),
        aggregates: Aggregates::default(),
        instances: instances(node.instances),
        metrics: node.metrics,
        pci: node.pci_device_pools.map(PciPools::new),
        numa: node.numa_topology.map(|cells| NumaTopology { cells }),
    }
}

fn stat((key, value): (String, serde_json::Value)) -> (String, Capability) {
    // Every JSON value can be represented as a `Capability`.
    let value = Capability::deserialize(value).unwrap_or(Capability::Null);
    (key, value)
}

fn instances(body: BTreeMap<uuid::Uuid, NodeInstanceBody>) -> Instances {
    let instance = |(uuid, body): (uuid::Uuid, NodeInstanceBody)| {
        let instance = Instance {
            flavorid: body.flavorid,
            image: image(body.image_properties),
        };
        (uuid.to_string(), instance)
    };
    Instances::new(body.into_iter().map(instance).collect())
}

/// Drops image properties that are invalid and keeps the others: the guest is already running, so its
/// image cannot be refused.
fn image(mut properties: BTreeMap<String, String>) -> ImageProperties {
    loop {
        match ImageProperties::new(properties.clone()) {
            Ok(image) => return image,
            Err(error) => {
                if properties.remove(&error.property).is_none() {
                    return ImageProperties::default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::sample;
