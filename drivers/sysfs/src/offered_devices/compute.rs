//! The compute service's devices, by Nova's rules: a virtual function counts as a part of its physical function.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{PciAddress, ResourceClass, Trait};
use berth_virt::{ClassOrigin, DeviceOwner, DeviceUnit, OfferedDevice};

use super::{DeviceRefusal, ListedFunction, OfferedDevices, handle, kind, unfit_parts};

/// Nova's devices: one for each card.
pub(super) fn offer(listed: Vec<ListedFunction<'_>>, offered: &mut OfferedDevices) {
    let mut cards: BTreeMap<PciAddress, Vec<ListedFunction<'_>>> = BTreeMap::new();
    for one in listed {
        let has_network = one.allowed.tags().physical_network.is_some();
        // Virtual functions and whole cards with a physical network are for ports. Other functions with that tag are not offered.
        let is_for_ports = one.port_network().is_some() && one.seen.network.is_some();
        if (has_network && !is_for_ports) || one.creates_virtual_functions() {
            continue;
        }
        if let Some(mdevs) = &one.seen.mdevs {
            offered.refused.push(DeviceRefusal::WholeAndMediated {
                address: one.address(),
                entry: one.allowed.entry(),
                mdev_type: mdevs.mdev_type.clone(),
            });
            continue;
        }
        let card = one.physical().unwrap_or(one.address());
        cards.entry(card).or_default().push(one);
    }
    for (address, parts) in cards {
        match compute_card(address, &parts) {
            Ok(Some(device)) => offered.devices.push(device),
            Ok(None) => {}
            Err(refused) => offered.refused.push(refused),
        }
    }
}

fn compute_card(
    address: PciAddress,
    parts: &[ListedFunction<'_>],
) -> Result<Option<OfferedDevice>, DeviceRefusal> {
    let virtuals: Vec<_> = parts
        .iter()
        .filter(|part| part.address() != address)
        .map(ListedFunction::address)
        .collect();
    if !virtuals.is_empty() && virtuals.len() < parts.len() {
        return Err(DeviceRefusal::WholeAndInParts {
            physical: address,
            parts: virtuals,
        });
    }
    let Some(first) = parts.first() else {
        return Ok(None);
    };
    let (class, traits) = (compute_class(first), compute_traits(first));
    let network = first.port_network();
    let link_group = &first.allowed.tags().link_group;
    for part in parts {
        let is_equal = compute_class(part) == class
            && compute_traits(part) == traits
            && part.allowed.tags().link_group == *link_group
            && part.port_network() == network;
        if !is_equal {
            return Err(DeviceRefusal::MixedCard {
                physical: address,
                first: first.address(),
                other: part.address(),
            });
        }
        if network.is_some() && part.allowed.tags().resource_class.is_some() {
            return Err(DeviceRefusal::PortClass {
                address: part.address(),
                entry: part.allowed.entry(),
            });
        }
        if part.physical().is_some() && part.allowed.tags().one_time_use == Some(true) {
            return Err(DeviceRefusal::VirtualOnce {
                address: part.address(),
                entry: part.allowed.entry(),
            });
        }
    }
    let function = &first.seen.function;
    let (unfit_handles, condition) = unfit_parts(parts);
    Ok(Some(OfferedDevice {
        address,
        vendor_id: function.vendor,
        product_id: function.device,
        owner: DeviceOwner::Compute,
        device_type: kind::device_type(function, first.allowed.tags()),
        model: None,
        numa_node: function.numa_node,
        link_group: link_group.clone(),
        physical_network: network.map(str::to_owned),
        network_functions: parts
            .iter()
            .filter_map(|part| Some((part.address(), part.seen.network.clone()?)))
            .collect(),
        class,
        class_origin: ClassOrigin::Configured,
        traits,
        handles: parts.iter().map(handle).collect(),
        unit: DeviceUnit::Handle,
        unfit_handles,
        one_time_use: first.allowed.tags().one_time_use == Some(true),
        condition,
    }))
}

fn compute_class(part: &ListedFunction<'_>) -> ResourceClass {
    let tags = part.allowed.tags();
    let tagged = tags.resource_class.clone();
    let of_type = tags.vgpu_type.map(kind::vgpu_class);
    let of_port = part.port_network().map(|_| match part.is_whole_card() {
        true => ResourceClass::CUSTOM_SRIOV_NET_PF,
        false => ResourceClass::SRIOV_NET_VF,
    });
    tagged.or(of_port).or(of_type).unwrap_or_else(|| {
        ResourceClass::pci_device(part.seen.function.vendor, part.seen.function.device)
    })
}

fn compute_traits(part: &ListedFunction<'_>) -> BTreeSet<Trait> {
    let tags = part.allowed.tags();
    let mut traits = tags.traits.clone();
    if tags.live_migratable == Some(true) {
        traits.insert(kind::LIVE_MIGRATABLE);
    }
    traits.extend(tags.vgpu_type.map(kind::vgpu_trait));
    traits.extend(part.port_network().map(Trait::physical_network));
    let is_virtual_port = part.port_network().is_some() && !part.is_whole_card();
    if is_virtual_port && tags.trusted == Some(true) {
        traits.insert(Trait::HW_NIC_SRIOV_TRUSTED);
    }
    traits
}
