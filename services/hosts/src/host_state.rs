//! A node's state as filters and weighers read it, of what its agent told: pure.
//!
//! What changes without the agent (its service, its aggregates, its cell) is laid over it by [`crate::states`].

use std::collections::{BTreeMap, BTreeSet};

use berth_scheduler::host_state::{
    Aggregates, Capability, Cores, CpuInfo, CpuSet, HostState, Instance, Instances, MemoryPages,
    NumaCell, NumaTopology, PciPool, PciPools, Service,
};
use berth_scheduler::request::ImageProperties;
use berth_wire::host_state::{
    MemoryPagesBody, NodeInstanceBody, NodeStateBody, NumaCellBody, PciPoolBody,
};
use serde::Deserialize as _;

/// MiB of a GiB.
const MIB: i64 = 1_024;

/// The state of a node, of no host and no cell yet. Free amounts are without the allocation ratios, as Nova's are.
pub(crate) fn of_node(node: NodeStateBody) -> HostState {
    let free_gb = node.local_gb.saturating_sub(node.local_gb_used);
    // What is really free counts where it is less than what nobody was promised.
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
        service: Service::default(),
        aggregates: Aggregates::default(),
        instances: instances(node.instances),
        metrics: node.metrics,
        pci: node
            .pci_device_pools
            .map(|pools| PciPools::new(pools.into_iter().map(pool).collect())),
        numa: node.numa_topology.map(|cells| NumaTopology {
            cells: cells.into_iter().map(cell).collect(),
        }),
    }
}

fn stat((key, value): (String, serde_json::Value)) -> (String, Capability) {
    // Each value of JSON is one.
    let value = Capability::deserialize(value).unwrap_or(Capability::Null);
    (key, value)
}

fn instances(told: BTreeMap<uuid::Uuid, NodeInstanceBody>) -> Instances {
    let instance = |(uuid, told): (uuid::Uuid, NodeInstanceBody)| {
        let instance = Instance {
            flavorid: told.flavorid,
            image: image(told.image_properties),
        };
        (uuid.to_string(), instance)
    };
    Instances::new(told.into_iter().map(instance).collect())
}

/// The guest runs, whatever its image says: a property that no image may have is left out, and the others stay.
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

fn pool(told: PciPoolBody) -> PciPool {
    PciPool {
        vendor_id: told.vendor_id,
        product_id: told.product_id,
        numa_node: told.numa_node,
        count: told.count,
        tags: told.tags,
    }
}

fn cell(told: NumaCellBody) -> NumaCell {
    NumaCell {
        id: told.id,
        cpuset: cpus(&told.cpuset),
        pcpuset: cpus(&told.pcpuset),
        memory: told.memory,
        memory_usage: told.memory_usage,
        cpu_usage: told.cpu_usage,
        pinned_cpus: cpus(&told.pinned_cpus),
        siblings: told.siblings.iter().map(cpus).collect::<Cores>(),
        mempages: told.mempages.into_iter().map(pages).collect(),
        socket: told.socket,
        physnets: told.physnets,
        tunneled: told.tunneled,
    }
}

fn pages(told: MemoryPagesBody) -> MemoryPages {
    MemoryPages {
        size_kb: told.size_kb,
        total: told.total,
        used: told.used,
        reserved: told.reserved,
    }
}

/// A report has no number beyond 16 bits.
fn cpus(told: &BTreeSet<u32>) -> CpuSet {
    let numbers = told.iter().filter_map(|cpu| u16::try_from(*cpu).ok());
    numbers.collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::sample;
