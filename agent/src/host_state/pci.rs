//! A node's free devices for passthrough, in pools of equal devices, as Nova's `PciDevicePool`. Pure.
//!
//! Only devices that flavors request (`[pci] device_spec`): neither devices of the accelerator service nor mediated
//! devices.

use std::collections::BTreeMap;

use berth_agent_instances::devices_in_use;
use berth_model::{PciAddress, Trait};
use berth_virt::{DeviceOwner, DeviceUnit, OfferedDevice, OfferedHandle, PciInPlacement};
use berth_wire::host_state::PciPool;

use crate::host_state::node_facts::NodeFacts;

/// The trait of a device that can be live-migrated with its guest.
const LIVE_MIGRATABLE: Trait = Trait::known("HW_PCI_LIVE_MIGRATABLE");

/// The properties that devices of a pool share.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    vendor_id: u16,
    product_id: u16,
    numa_node: Option<u32>,
    tags: BTreeMap<String, String>,
}

/// The pools with free devices; `None` if the host offers no device to flavors.
pub(super) fn pools(facts: &NodeFacts<'_>) -> Option<Vec<PciPool>> {
    let offered = facts.seen.devices.iter();
    // A partition's GPUs are requested by its class: an alias would get a part of them.
    let is_partition = |device: &OfferedDevice| matches!(device.unit, DeviceUnit::Partition(_));
    let offered = offered.filter(|device| {
        device.owner == DeviceOwner::Compute && !is_partition(device) && !device.is_for_ports()
    });
    let mut offered = offered.peekable();
    offered.peek()?;
    let taken = devices_in_use(facts.own_records(), facts.seen);
    let mut pools: BTreeMap<Pool, i64> = BTreeMap::new();
    for device in offered.filter(|device| device.condition.reason().is_none()) {
        for handle in &device.handles {
            let OfferedHandle::Function(address) = handle else {
                continue;
            };
            if !device.unfit_handles.contains(handle) && !taken.contains(&address.to_string()) {
                *pools.entry(pool(facts, device, *address)).or_default() += 1;
            }
        }
    }
    let pools = pools.into_iter().map(|(pool, count)| PciPool {
        vendor_id: format!("{:04x}", pool.vendor_id),
        product_id: format!("{:04x}", pool.product_id),
        numa_node: pool.numa_node.map(i64::from),
        count,
        tags: pool.tags,
    });
    Some(pools.collect())
}

fn pool(facts: &NodeFacts<'_>, device: &OfferedDevice, address: PciAddress) -> Pool {
    let mut tags = BTreeMap::from([("dev_type".to_owned(), dev_type(facts, device, address))]);
    if let Some(network) = &device.physical_network {
        tags.insert("physical_network".to_owned(), network.clone());
    }
    if device.traits.contains(&LIVE_MIGRATABLE) {
        tags.insert("live_migratable".to_owned(), "true".to_owned());
    }
    if facts.seen.pci == PciInPlacement::Reported
        && let Some(provider) = facts.tree.by_name(&device.provider_name(facts.node))
    {
        tags.insert("rp_uuid".to_owned(), provider.uuid().to_string());
    }
    Pool {
        vendor_id: device.vendor_id,
        product_id: device.product_id,
        numa_node: device.numa_node,
        tags,
    }
}

/// Nova's name for the type of a function.
fn dev_type(facts: &NodeFacts<'_>, device: &OfferedDevice, address: PciAddress) -> String {
    let physical = &facts.seen.capabilities.physical_functions;
    let word = match address == device.address {
        false => "type-VF",
        true if physical.contains(&address) => "type-PF",
        true => "type-PCI",
    };
    word.to_owned()
}
