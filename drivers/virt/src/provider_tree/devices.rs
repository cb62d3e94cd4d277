//! The children that stand for offered devices: one of the root for each, as Nova's PCI tracker and Cyborg's conductor make
//! them, so that a host of either is taken over with what is there.
//!
//! Such a child says whose it is: a PCI device of the compute service has COMPUTE_MANAGED_PCI_DEVICE; a device of the accelerator
//! service has OWNER_CYBORG, and CUSTOM_OWNER_BERTH where Berth and not Cyborg writes it. Its inventories are the driver's
//! whole, and so are its traits: what a device no longer is must not be found by a profile.
//!
//! What is reserved has four causes, which must not be mixed up. An operator (or whoever cleans a device that is used once)
//! sets it, and it stays; a device that may not be given out has all of it reserved, and says why by a trait; a card has
//! those of its parts reserved that are set aside; and so has
//! one whose units are still held under another class. Where ours covers an operator's, a trait remembers that one.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Inventory, Move, NodeName, OWNER_TRAITS, PciAddress, Provider, ProviderName, ProviderTree,
    ProviderUuid, ResourceClass, Trait,
};

use super::ProviderTreeError;
use super::names::PCI_TRACKERS;
use crate::takeover::{address_in, cyborgs_address};
use crate::{
    DeviceCondition, DeviceOwner, HostDevice, NodeView, OfferedDevice, OfferedHandle,
    PciInPlacement, UnfitReason,
};

const ONE_TIME_USE: Trait = Trait::known("HW_PCI_ONE_TIME_USE");
/// How much an operator had reserved when more had to be.
const RESERVED_BEFORE: &str = "CUSTOM_BERTH_DEVICE_RESERVED_";
/// What is loaded into a gate array is not seen on the bus.
const LOADED: [&str; 2] = ["CUSTOM_FPGA_FUNCTION_ID_", "CUSTOM_FPGA_REGION_"];

/// The devices that get a child, by its name. One that is gone gets none, nor one that has nothing to give.
pub(crate) fn wanted<'a>(
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

/// Whose device a child of the root stands for that is Berth's to write; none for all others.
fn owner(current: &ProviderTree, provider: &Provider) -> Option<DeviceOwner> {
    let root = current.root().uuid();
    if provider.parent() != Some(root) {
        return None;
    }
    address_in(&provider.name)?;
    let has = |mark: &Trait| provider.traits.contains(mark);
    if has(&Trait::OWNER_CYBORG) {
        return has(&Trait::CUSTOM_OWNER_BERTH).then_some(DeviceOwner::Accelerator);
    }
    // A Placement may not know the traits; then a child is known by its UUID, which is of the name it was made with.
    let is_deployable = provider.uuid().is_of_a_deployable();
    if is_deployable && has(&Trait::CUSTOM_OWNER_BERTH) && !has(&PCI_TRACKERS) {
        return Some(DeviceOwner::Accelerator);
    }
    let is_device = has(&PCI_TRACKERS) || provider.uuid() == root.child(&provider.name);
    (is_device && current.is_ours(provider.uuid())).then_some(DeviceOwner::Compute)
}

/// Whether a child stands for a device that is not offered any more. A nova-compute's PCI devices are none of ours while PCI
/// devices are not reported.
pub(super) fn goes(
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

/// Children of wanted devices under another name: a rename of the host was interrupted, an operator gave it, Cyborg called the
/// host otherwise, or the device went from one owner to the other, whose names differ.
///
/// # Errors
/// Two children stand for one device.
pub(super) fn misnamed(
    current: &ProviderTree,
    node: &NodeName,
    wanted: &BTreeMap<ProviderName, &OfferedDevice>,
) -> Result<BTreeMap<ProviderUuid, ProviderName>, ProviderTreeError> {
    let root = current.root().uuid();
    let mut by_address = BTreeMap::new();
    let mut by_uuid = BTreeMap::new();
    for (name, device) in wanted {
        by_address.extend(device.cyborgs_addresses().map(|address| (address, name)));
        by_uuid.insert(device.provider_uuid(node, root), name);
    }
    let mut found: BTreeMap<ProviderUuid, ProviderName> = BTreeMap::new();
    for child in current.children(root) {
        let by_name = || {
            let name = by_address.get(&address_in(&child.name)?)?;
            let is_accelerators =
                || wanted.get(*name).map(|it| it.owner) == Some(DeviceOwner::Accelerator);
            let is_its = owner(current, child).is_some()
                || (is_accelerators() && cyborgs_address(child).is_some());
            is_its.then_some(name)
        };
        let Some(name) = by_uuid.get(&child.uuid()).or_else(by_name) else {
            continue;
        };
        if child.name == **name {
            continue;
        }
        let there = current.by_name(name).map(Provider::uuid);
        let named_so = found.iter().find(|(_, taken)| *taken == *name);
        if let Some(other) = there.or(named_so.map(|(uuid, _)| *uuid)) {
            return Err(ProviderTreeError::Twice {
                node: node.clone(),
                name: (*name).clone(),
                uuid: child.uuid(),
                misnamed: child.name.clone(),
                other,
            });
        }
        found.insert(child.uuid(), (*name).clone());
    }
    Ok(found)
}

/// Children of wanted devices that a nova-compute or Cyborg made and that do not say yet that Berth writes them, with what
/// they are to say.
///
/// # Errors
/// A device of the compute service is Cyborg's.
pub(super) fn unmarked(
    current: &ProviderTree,
    node: &NodeName,
    wanted: &BTreeMap<ProviderName, &OfferedDevice>,
) -> Result<BTreeMap<ProviderUuid, BTreeSet<Trait>>, ProviderTreeError> {
    let mut unmarked = BTreeMap::new();
    for (name, device) in wanted {
        let children = current.children(current.root().uuid());
        let is_its = |address| device.cyborgs_addresses().any(|own| own == address);
        let cyborgs = || {
            let mut children = children.into_iter();
            children.find(|child| cyborgs_address(child).is_some_and(is_its))
        };
        let Some(child) = current.by_name(name).or_else(cyborgs) else {
            continue;
        };
        if !current.is_own(child.uuid()) || owner(current, child).is_some() {
            continue;
        }
        let marks = match device.owner {
            DeviceOwner::Accelerator => [Trait::OWNER_CYBORG, Trait::CUSTOM_OWNER_BERTH],
            DeviceOwner::Compute if child.traits.contains(&Trait::OWNER_CYBORG) => {
                return Err(ProviderTreeError::Cyborgs {
                    node: node.clone(),
                    name: name.clone(),
                    uuid: child.uuid(),
                });
            }
            DeviceOwner::Compute => [Trait::OWNER_NOVA, PCI_TRACKERS],
        };
        unmarked.insert(child.uuid(), BTreeSet::from(marks));
    }
    Ok(unmarked)
}

/// Devices whose class is another one from now on: their units go along.
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

/// Whether a guest has this part of it.
fn is_in_a_guest_as(seen: &NodeView, part: &OfferedHandle) -> bool {
    let mut guests = seen.guests.values();
    guests.any(|guest| match part {
        OfferedHandle::Function(function) => guest.functions.contains(function),
        OfferedHandle::Mdev { uuid, .. } => guest.mdevs.iter().any(|mdev| mdev.uuid == *uuid),
    })
}

/// The child as it is to be, given the one that Placement has.
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
    let reserved = reserved(before, seen, device, whole);
    child.traits = traits(before, device);
    child.traits.extend(reserved.remembered);
    child.inventories =
        BTreeMap::from([(device.class.clone(), inventory.reserving(reserved.amount))]);
    Ok(())
}

struct Reserved {
    amount: u32,
    remembered: Option<Trait>,
}

fn reserved(
    before: Option<&Provider>,
    seen: &NodeView,
    device: &OfferedDevice,
    whole: u32,
) -> Reserved {
    let mut operators = before.map_or(0, |before| operators(before, device, whole));
    if device.one_time_use && is_in_a_guest(seen, device) {
        operators = whole;
    }
    let operators = operators.min(whole);
    let elsewhere = before.map_or(0, |before| held_elsewhere(before, &device.class));
    // A part in a guest is used already: reserved besides, it would count twice.
    let aside = device.set_aside.iter();
    let aside = aside.filter(|part| !is_in_a_guest_as(seen, part)).count();
    let aside = u32::try_from(aside).unwrap_or(u32::MAX);
    let (ours, amount) = match device.condition {
        DeviceCondition::Unfit { .. } => (whole, whole),
        DeviceCondition::Fit => {
            // What an operator keeps back is kept of what is left.
            let amount = elsewhere.max(operators).saturating_add(aside);
            (elsewhere.saturating_add(aside), amount.min(whole))
        }
    };
    let covers = ours > 0 && (operators > 0 || elsewhere > 0 || aside > 0);
    Reserved {
        amount,
        remembered: covers.then(|| reserved_before(operators)).flatten(),
    }
}

fn reserved_before(amount: u32) -> Option<Trait> {
    Trait::new(&format!("{RESERVED_BEFORE}{amount}")).ok()
}

/// What an operator reserved: what is there, unless that is our doing.
fn operators(before: &Provider, device: &OfferedDevice, whole: u32) -> u32 {
    let offered = |inventory: &&Inventory| !inventory.is_held();
    let same = before.inventories.get(&device.class).filter(offered);
    let Some(there) = same.or_else(|| before.inventories.values().find(offered)) else {
        // It was gone while somebody had it, and nobody has cleaned it since.
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

/// Units that are still held under another class: they are of the same device.
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
            traits.insert(PCI_TRACKERS);
            traits.extend(device.one_time_use.then_some(ONE_TIME_USE));
            // Which of these it is to be is the agent's to say.
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

/// The device that a guest's part is of, with its provider's name and its class: how a claim is read back from a guest.
pub(crate) fn device_of(
    seen: &NodeView,
    part: HostDevice,
    parent: Option<PciAddress>,
) -> Option<&OfferedDevice> {
    let devices = || seen.devices.iter();
    let has = |device: &&OfferedDevice| {
        device.handles.iter().any(|handle| match (handle, part) {
            (OfferedHandle::Function(function), HostDevice::Function(part)) => *function == part,
            (OfferedHandle::Mdev { uuid, .. }, HostDevice::Mdev(part)) => *uuid == part,
            _ => false,
        })
    };
    let is_parent = |device: &&OfferedDevice| {
        parent == Some(device.address)
            && matches!(device.handles.first(), Some(OfferedHandle::Mdev { .. }))
    };
    devices().find(has).or_else(|| devices().find(is_parent))
}
