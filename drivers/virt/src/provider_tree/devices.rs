//! The children of the root and of its link groups for offered devices. They have the same form as the children of
//! Nova's PCI tracker and Cyborg's conductor, so that existing providers are taken over.
//!
//! Traits mark the owner: COMPUTE_MANAGED_PCI_DEVICE for the compute service; OWNER_CYBORG for the accelerator service,
//! with CUSTOM_OWNER_BERTH if Berth and not Cyborg writes the provider. The driver manages all inventories and traits
//! of such a child, so that no profile matches an outdated trait.
//!
//! Units are reserved for four reasons, which must not be confused. An operator (or an external cleaner of one-time-use
//! devices) reserves units, which stays. A device that may not be given out is fully reserved, with the reason as a
//! trait. A card's handles that are set aside are reserved. Units still allocated under another class are reserved. If
//! Berth's reservation covers an operator's, a trait records the latter.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Inventory, Move, NodeName, OWNER_TRAITS, PciAddress, Provider, ProviderName, ProviderTree,
    ProviderUuid, ResourceClass, Trait,
};

use super::ProviderTreeError;
use super::link_groups::{device_children, has_devices};
use super::names::{PCI_TRACKER_TRAIT, add_rename};
use crate::takeover::{address_in, cyborgs_address, partition_in};
use crate::{
    DeviceCondition, DeviceOwner, DeviceUnit, GuestView, HostDeviceId, NodeView, OfferedDevice,
    OfferedHandle, PciInPlacement, UnfitReason,
};

const ONE_TIME_USE: Trait = Trait::known("HW_PCI_ONE_TIME_USE");
/// The prefix of the trait that records an operator's reservation while a larger one is needed.
const RESERVED_BEFORE: &str = "CUSTOM_BERTH_DEVICE_RESERVED_";
/// Traits of FPGA images, which cannot be seen on the bus and therefore are kept.
const LOADED: [&str; 2] = ["CUSTOM_FPGA_FUNCTION_ID_", "CUSTOM_FPGA_REGION_"];

/// The devices that get a child, by its name. Missing devices and devices without handles get none.
pub(crate) fn desired_devices<'a>(
    seen: &'a NodeView,
    node: &NodeName,
) -> BTreeMap<ProviderName, &'a OfferedDevice> {
    let is_reported = |device: &&OfferedDevice| {
        let gone = DeviceCondition::Unfit {
            reason: UnfitReason::Vanished,
        };
        let reported =
            device.owner == DeviceOwner::Accelerator || seen.pci == PciInPlacement::Reported;
        reported && device.condition != gone && !device.handles.is_empty()
    };
    let devices = seen.devices.iter().filter(is_reported);
    devices
        .map(|device| (device.provider_name(node), device))
        .collect()
}

/// The owner of the device of a child that Berth may write; `None` for all others.
fn owner(current: &ProviderTree, provider: &Provider) -> Option<DeviceOwner> {
    let root = current.root().uuid();
    if !provider.parent().is_some_and(|it| has_devices(current, it)) {
        return None;
    }
    if address_in(&provider.name).is_none() && partition_in(&provider.name).is_none() {
        return None;
    }
    let has = |mark: &Trait| provider.traits.contains(mark);
    if has(&Trait::OWNER_CYBORG) {
        return has(&Trait::CUSTOM_OWNER_BERTH).then_some(DeviceOwner::Accelerator);
    }
    // If Placement does not know the traits, a child is recognised by its UUID, which is derived from its original
    // name.
    let is_deployable = provider.uuid().is_of_a_deployable();
    if is_deployable && has(&Trait::CUSTOM_OWNER_BERTH) && !has(&PCI_TRACKER_TRAIT) {
        return Some(DeviceOwner::Accelerator);
    }
    let is_device = has(&PCI_TRACKER_TRAIT) || provider.uuid() == root.child(&provider.name);
    (is_device && current.is_ours(provider.uuid())).then_some(DeviceOwner::Compute)
}

/// Whether a child stands for a device that is no longer offered. PCI devices of a nova-compute are ignored while PCI
/// devices are not reported.
pub(super) fn is_obsolete(
    seen: &NodeView,
    current: &ProviderTree,
    wanted: &BTreeMap<ProviderName, &OfferedDevice>,
    provider: &Provider,
) -> bool {
    let made = provider.uuid() == current.root().uuid().child(&provider.name);
    !wanted.contains_key(&provider.name)
        && owner(current, provider).is_some_and(|owner| {
            owner == DeviceOwner::Accelerator || made || seen.pci == PciInPlacement::Reported
        })
}

/// The children of wanted devices with a wrong name, and the correct name of each: a rename of the host was interrupted, an
/// operator renamed the child, Cyborg used another host name, or the device changed its owner, which implies another
/// name. Fails if two children represent one device.
pub(super) fn children_to_rename(
    current: &ProviderTree,
    node: &NodeName,
    wanted: &BTreeMap<ProviderName, &OfferedDevice>,
) -> Result<BTreeMap<ProviderUuid, ProviderName>, ProviderTreeError> {
    let root = current.root().uuid();
    let mut by_address = BTreeMap::new();
    let mut by_partition = BTreeMap::new();
    let mut by_uuid = BTreeMap::new();
    for (name, device) in wanted {
        if let DeviceUnit::Partition(id) = device.unit {
            by_partition.insert(id, name);
        }
        by_address.extend(device.cyborgs_addresses().map(|address| (address, name)));
        by_uuid.insert(device.provider_uuid(node, root), name);
    }
    let mut renames = BTreeMap::new();
    for child in device_children(current) {
        let by_name = || {
            let of_address = address_in(&child.name).and_then(|address| by_address.get(&address));
            let of_partition = || by_partition.get(&partition_in(&child.name)?);
            let name = of_address.or_else(of_partition)?;
            let is_accelerators =
                || wanted.get(*name).map(|it| it.owner) == Some(DeviceOwner::Accelerator);
            let is_its = owner(current, child).is_some()
                || (is_accelerators() && cyborgs_address(child).is_some());
            is_its.then_some(name)
        };
        if let Some(name) = by_uuid.get(&child.uuid()).or_else(by_name) {
            add_rename(&mut renames, current, node, child, name)?;
        }
    }
    Ok(renames)
}

/// The children of wanted devices that nova-compute or Cyborg created without Berth's owner traits, and the traits that
/// each must get. Fails if a device of the compute service belongs to Cyborg.
pub(super) fn missing_owner_traits(
    current: &ProviderTree,
    node: &NodeName,
    wanted: &BTreeMap<ProviderName, &OfferedDevice>,
) -> Result<BTreeMap<ProviderUuid, BTreeSet<Trait>>, ProviderTreeError> {
    let mut missing = BTreeMap::new();
    for (name, device) in wanted {
        let is_its = |address| device.cyborgs_addresses().any(|own| own == address);
        let cyborgs = || {
            let mut children = device_children(current).into_iter();
            children.find(|child| cyborgs_address(child).is_some_and(is_its))
        };
        let Some(child) = current.by_name(name).or_else(cyborgs) else {
            continue;
        };
        if !current.is_own(child.uuid()) || owner(current, child).is_some() {
            continue;
        }
        let owner_traits = match device.owner {
            DeviceOwner::Accelerator => [Trait::OWNER_CYBORG, Trait::CUSTOM_OWNER_BERTH],
            DeviceOwner::Compute if child.traits.contains(&Trait::OWNER_CYBORG) => {
                return Err(ProviderTreeError::OwnedByCyborg {
                    node: node.clone(),
                    name: name.clone(),
                    uuid: child.uuid(),
                });
            }
            DeviceOwner::Compute => [Trait::OWNER_NOVA, PCI_TRACKER_TRAIT],
        };
        missing.insert(child.uuid(), BTreeSet::from(owner_traits));
    }
    Ok(missing)
}

/// The moves of devices that change their class: their units follow.
pub(super) fn moves(
    current: &ProviderTree,
    wanted: &BTreeMap<ProviderName, &OfferedDevice>,
) -> Vec<Move> {
    let mut moves = Vec::new();
    for (name, device) in wanted {
        let child = current.by_name(name);
        let Some(child) = child.filter(|child| current.is_own(child.uuid())) else {
            continue;
        };
        let others = child.inventories.keys();
        for class in others.filter(|class| **class != device.class) {
            moves.push(Move {
                provider: child.uuid(),
                class: class.clone(),
                to: BTreeSet::from([device.class.clone()]),
                reason: "the device has another class",
            });
        }
    }
    moves
}

/// Whether a guest has a part of the device.
fn is_in_a_guest(seen: &NodeView, device: &OfferedDevice) -> bool {
    let mut parts = device.handles.iter();
    parts.any(|part| is_in_a_guest_as(seen, part))
}

/// Whether a guest has this handle.
fn is_in_a_guest_as(seen: &NodeView, part: &OfferedHandle) -> bool {
    let mut guests = seen.guests.values();
    guests.any(|guest| match part {
        OfferedHandle::Function(function) => guest.functions.contains(function),
        OfferedHandle::Mdev { uuid, .. } => guest.mdevs.iter().any(|mdev| mdev.uuid == *uuid),
    })
}

/// The desired child, based on the one in Placement.
pub(super) fn write(
    child: &mut Provider,
    before: Option<&Provider>,
    seen: &NodeView,
    device: &OfferedDevice,
) -> Result<(), ProviderTreeError> {
    let total = device.units();
    let inventory = Inventory::of(total).map_err(|source| ProviderTreeError::Amount {
        provider: child.name.clone(),
        class: device.class.clone(),
        source,
    })?;
    let whole = inventory.total;
    let reserved = reservation(before, seen, device, whole);
    child.traits = traits(before, device);
    child.traits.extend(reserved.remembered);
    child.inventories =
        BTreeMap::from([(device.class.clone(), inventory.reserving(reserved.amount))]);
    Ok(())
}

struct DeviceReservation {
    amount: u32,
    remembered: Option<Trait>,
}

fn reservation(
    before: Option<&Provider>,
    seen: &NodeView,
    device: &OfferedDevice,
    whole: u32,
) -> DeviceReservation {
    let mut operators = before.map_or(0, |before| operators(before, device, whole));
    if device.one_time_use && is_in_a_guest(seen, device) {
        operators = whole;
    }
    let operators = operators.min(whole);
    let elsewhere = before.map_or(0, |before| held_elsewhere(before, &device.class));
    // Handles in a guest are already allocated; reserving them would count them twice.
    let aside = device.unfit_handles.iter();
    let aside = match device.unit {
        // A GPU in the guest of another partition is not allocated here.
        DeviceUnit::Partition(_) => aside.count(),
        DeviceUnit::Handle | DeviceUnit::Device => {
            aside.filter(|part| !is_in_a_guest_as(seen, part)).count()
        }
    };
    let aside = u32::try_from(aside).unwrap_or(u32::MAX);
    let (ours, amount) = match device.condition {
        DeviceCondition::Unfit { .. } => (whole, whole),
        DeviceCondition::Fit => {
            // An operator's reservation applies to the remaining units.
            let amount = elsewhere.max(operators).saturating_add(aside);
            (elsewhere.saturating_add(aside), amount.min(whole))
        }
    };
    let covers = ours > 0 && (operators > 0 || elsewhere > 0 || aside > 0);
    DeviceReservation {
        amount,
        remembered: covers.then(|| reserved_before(operators)).flatten(),
    }
}

fn reserved_before(amount: u32) -> Option<Trait> {
    Trait::new(&format!("{RESERVED_BEFORE}{amount}")).ok()
}

/// The units reserved by an operator: the current value unless Berth set it.
fn operators(before: &Provider, device: &OfferedDevice, whole: u32) -> u32 {
    let offered = |inventory: &&Inventory| !inventory.is_held();
    let same = before.inventories.get(&device.class).filter(offered);
    let Some(there) = same.or_else(|| before.inventories.values().find(offered)) else {
        // It was missing while in use, and has not been cleaned since.
        let was_held = before.inventories.values().any(Inventory::is_held);
        return if device.one_time_use && was_held {
            whole
        } else {
            0
        };
    };
    let remembered = before.traits.iter().find_map(|held| {
        let number = held.as_str().strip_prefix(RESERVED_BEFORE)?;
        number.parse::<u32>().ok()
    });
    let was_unfit = UnfitReason::ALL
        .iter()
        .any(|reason| before.traits.contains(&reason.as_trait()));
    match remembered {
        Some(remembered) => remembered,
        None if was_unfit && there.reserved >= there.total => 0,
        None => there.reserved,
    }
}

/// Units still allocated under another class; they are of the same device.
fn held_elsewhere(before: &Provider, class: &ResourceClass) -> u32 {
    let others = before.inventories.iter().filter(|(held, _)| *held != class);
    others
        .filter(|(_, inventory)| inventory.is_held())
        .map(|(_, inventory)| inventory.total)
        .fold(0, u32::saturating_add)
}

fn traits(before: Option<&Provider>, device: &OfferedDevice) -> BTreeSet<Trait> {
    let mut traits = device.traits.clone();
    traits.extend(device.condition.reason().map(crate::UnfitReason::as_trait));
    let kept = before.into_iter().flat_map(|before| &before.traits);
    match device.owner {
        DeviceOwner::Compute => {
            traits.insert(PCI_TRACKER_TRAIT);
            traits.extend(device.one_time_use.then_some(ONE_TIME_USE));
            // The agent decides which of these apply.
            traits.extend(kept.filter(|held| OWNER_TRAITS.contains(held)).cloned());
        }
        DeviceOwner::Accelerator => {
            traits.extend([Trait::OWNER_CYBORG, Trait::CUSTOM_OWNER_BERTH]);
            let loaded = |held: &&Trait| LOADED.iter().any(|at| held.as_str().starts_with(at));
            traits.extend(kept.filter(loaded).cloned());
        }
    }
    traits
}

/// The device that a guest's part is of, with its provider's name and its class: how a claim is read back from a guest. Of
/// the partitions with the part, it is the largest one that the guest has as a whole.
pub(crate) fn device_of<'a>(
    seen: &'a NodeView,
    guest: &GuestView,
    part: HostDeviceId,
    parent: Option<PciAddress>,
) -> Option<&'a OfferedDevice> {
    let devices = || seen.devices.iter();
    let has_all = |device: &OfferedDevice| {
        device.handles.iter().all(|handle| match handle {
            OfferedHandle::Function(function) => guest.functions.contains(function),
            OfferedHandle::Mdev { .. } => false,
        })
    };
    let has = |device: &&OfferedDevice| {
        device.handles.iter().any(|handle| match (handle, part) {
            (OfferedHandle::Function(function), HostDeviceId::Function(part)) => *function == part,
            (OfferedHandle::Mdev { uuid, .. }, HostDeviceId::Mdev(part)) => *uuid == part,
            _ => false,
        })
    };
    let is_parent = |device: &&OfferedDevice| {
        parent == Some(device.address)
            && matches!(device.handles.first(), Some(OfferedHandle::Mdev { .. }))
    };
    let is_partition = |device: &&OfferedDevice| matches!(device.unit, DeviceUnit::Partition(_));
    let partitions = devices().filter(is_partition).filter(has);
    let partition = partitions
        .filter(|device| has_all(device))
        .max_by_key(|device| device.handles.len());
    let of_part = || devices().filter(|device| !is_partition(device)).find(has);
    partition
        .or_else(of_part)
        .or_else(|| devices().find(is_parent))
}
