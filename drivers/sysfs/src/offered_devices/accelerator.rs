//! The accelerator service's devices, by Cyborg's rules: a device is what one of its drivers detects.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{NodeName, PciAddress, ProviderUuid};
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, OfferedDevice, OfferedHandle,
};

use super::{
    DeviceRefusal, ListedFunction, OfferedDevices, SeenFunction, SeenMdevs, handle, kind,
    unfit_parts,
};

/// Cyborg's devices: one for each function, but for cards that are one.
pub(super) fn offer(
    node: &NodeName,
    listed: Vec<ListedFunction<'_>>,
    offered: &mut OfferedDevices,
) {
    let parted: BTreeSet<_> = listed.iter().filter_map(ListedFunction::physical).collect();
    let slot = |one: &ListedFunction<'_>| {
        let address = one.address();
        (address.domain(), address.bus(), address.slot())
    };
    let is_gpu = |one: &ListedFunction<'_>| {
        kind::device_type(&one.seen.function, one.allowed.tags()) == DeviceType::Gpu
    };
    let graphics: BTreeSet<_> = listed.iter().filter(|one| is_gpu(one)).map(slot).collect();
    let mut whole: BTreeMap<_, Vec<ListedFunction<'_>>> = BTreeMap::new();
    let mut in_parts: BTreeMap<_, Vec<ListedFunction<'_>>> = BTreeMap::new();
    for one in listed {
        // The sound and USB functions of a graphics card go to the same guest, and are listed only for that.
        let accompanies = !is_gpu(&one) && graphics.contains(&slot(&one));
        if parted.contains(&one.address()) || one.creates_virtual_functions() || accompanies {
            continue;
        }
        if kind::is_of_a_xilinx_card(&one.seen.function, one.allowed.tags()) {
            whole.entry(slot(&one)).or_default().push(one);
        } else if let Some(card) = part_of_an_intel_fpga(&one) {
            in_parts.entry(card).or_default().push(one);
        } else {
            offered.devices.push(accelerator(node, &one));
        }
    }
    let whole = whole.values().map(|functions| whole_card(node, functions));
    let in_parts = in_parts.iter();
    let in_parts = in_parts.map(|(address, parts)| card_in_parts(node, *address, parts));
    for card in whole.chain(in_parts) {
        match card {
            Ok(device) => offered.devices.extend(device),
            Err(refused) => offered.refused.push(refused),
        }
    }
}

/// The card that has this function as a unit of its provider.
fn part_of_an_intel_fpga(one: &ListedFunction<'_>) -> Option<PciAddress> {
    let counts = kind::is_part_of_an_intel_fpga(&one.seen.function) && one.seen.mdevs.is_none();
    one.physical().filter(|_| counts)
}

/// The first function of a card, after checking that all functions have the same tags.
fn first_of<'a, 'b>(
    functions: &'b [ListedFunction<'a>],
) -> Result<Option<&'b ListedFunction<'a>>, DeviceRefusal> {
    let Some(first) = functions.iter().min_by_key(|one| one.address()) else {
        return Ok(None);
    };
    let tags = first.allowed.tags();
    let is_other = |one: &&ListedFunction<'_>| {
        let other_tags = one.allowed.tags();
        other_tags.resource_class != tags.resource_class
            || other_tags.traits != tags.traits
            || other_tags.link_group != tags.link_group
    };
    match functions.iter().find(is_other) {
        None => Ok(Some(first)),
        Some(other) => Err(DeviceRefusal::MixedFunctions {
            first: first.address(),
            other: other.address(),
        }),
    }
}

/// A card with functions that are given to one guest together, named after the first one.
fn whole_card(
    node: &NodeName,
    functions: &[ListedFunction<'_>],
) -> Result<Option<OfferedDevice>, DeviceRefusal> {
    let Some(first) = first_of(functions)? else {
        return Ok(None);
    };
    let mut device = accelerator(node, first);
    device.handles = functions.iter().map(handle).collect();
    device.handles.sort();
    device.unit = DeviceUnit::Device;
    let mut conditions = functions.iter().map(|one| one.seen.condition);
    let unfit = conditions.find(|condition| *condition != DeviceCondition::Fit);
    device.condition = unfit.unwrap_or_default();
    Ok(Some(device))
}

/// A card with virtual functions as units of one provider, named after the physical function.
fn card_in_parts(
    node: &NodeName,
    address: PciAddress,
    parts: &[ListedFunction<'_>],
) -> Result<Option<OfferedDevice>, DeviceRefusal> {
    let Some(first) = first_of(parts)? else {
        return Ok(None);
    };
    let (unfit_handles, condition) = unfit_parts(parts);
    let mut device = accelerator(node, first);
    device.handles = parts.iter().map(handle).collect();
    device.handles.sort();
    Ok(Some(OfferedDevice {
        address,
        unfit_handles,
        condition,
        ..device
    }))
}

fn accelerator(node: &NodeName, one: &ListedFunction<'_>) -> OfferedDevice {
    let SeenFunction {
        function, mdevs, ..
    } = one.seen;
    let tags = one.allowed.tags();
    let physical_network = tags.physical_network.as_deref();
    let physical_network = physical_network.filter(|name| !name.is_empty());
    let device_type = kind::device_type(function, tags);
    let class = tags.resource_class.clone();
    let mut traits = match tags.traits.is_empty() {
        true => kind::cyborgs_traits(function, device_type, mdevs.as_ref(), physical_network),
        false => tags.traits.clone(),
    };
    traits.extend(tags.vgpu_type.map(kind::vgpu_trait));
    let (of_kind, handles) = match mdevs {
        Some(mdevs) => (
            mdevs.class.clone(),
            mdev_handles(node, function.address, mdevs),
        ),
        None => (
            match tags.vgpu_type {
                Some(vgpu_type) => kind::vgpu_class(vgpu_type),
                None => device_type.resource_class(),
            },
            vec![OfferedHandle::Function(function.address)],
        ),
    };
    OfferedDevice {
        address: function.address,
        vendor_id: function.vendor,
        product_id: function.device,
        owner: DeviceOwner::Accelerator,
        device_type,
        model: mdevs.as_ref().and_then(|mdevs| mdevs.type_name.clone()),
        numa_node: function.numa_node,
        link_group: tags.link_group.clone(),
        physical_network: physical_network.map(str::to_owned),
        network_functions: BTreeMap::new(),
        class_origin: match class {
            Some(_) => ClassOrigin::Configured,
            None => ClassOrigin::Default,
        },
        class: class.unwrap_or(of_kind),
        traits,
        handles,
        unit: DeviceUnit::Handle,
        unfit_handles: BTreeSet::new(),
        one_time_use: tags.one_time_use == Some(true),
        condition: one.seen.condition,
    }
}

/// All existing devices, followed by Berth's own with the lowest unused numbers. So a handle stays the same while
/// Berth's devices are created and removed.
fn mdev_handles(node: &NodeName, parent: PciAddress, mdevs: &SeenMdevs) -> Vec<OfferedHandle> {
    let provider = ProviderUuid::of_deployable(&node.deployable_name(parent));
    let mut uuids = mdevs.existing.clone();
    let more = usize::try_from(mdevs.total).unwrap_or(usize::MAX);
    let numbered = (0..mdevs.total).map(|number| OfferedHandle::mdev_uuid(provider, number));
    for uuid in numbered {
        if uuids.len() >= more {
            break;
        }
        uuids.insert(uuid);
    }
    let handle = |uuid| OfferedHandle::Mdev {
        uuid,
        parent,
        mdev_type: mdevs.mdev_type.clone(),
    };
    uuids.into_iter().map(handle).collect()
}
