//! Which devices of a host are offered to guests, whose they are and as what: the operator's two lists held against what is
//! there. Pure but for [`crate::Sysfs::look_at_devices`].
//!
//! `[pci] device_spec` is the compute service's list and follows Nova's rules whole: a virtual function counts on its physical
//! one, which is offered itself or by its virtual functions but not by both, and all of these have one class and the same traits.
//! `[accelerators] device_spec` is the accelerator service's and follows Cyborg's: each function is a device of its own, and a
//! physical one whose virtual functions are offered is none; the functions of a Xilinx card are one. What breaks a rule is left
//! out and told ([`DeviceRefusal`]).

mod beforehand;
mod kind;
mod look;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{NodeName, PciAddress, ProviderUuid, ResourceClass, Trait};
use berth_virt::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, OfferedDevice,
    OfferedHandle, PciInPlacement,
};
use uuid::Uuid;

use crate::{AllowList, Allowed, PciFunction, Sriov};
pub use look::{Baseline, ConditionNews, LastLook};
pub use refusal::DeviceRefusal;

/// The operator's lists.
#[derive(Debug, Clone, Copy)]
pub struct DeviceLists<'a> {
    /// `[pci] device_spec`.
    pub compute: &'a AllowList,
    /// `[pci] report_in_placement`: without it the compute service's devices are not offered.
    pub pci: PciInPlacement,
    /// `[accelerators] device_spec`.
    pub accelerator: &'a AllowList,
}

impl DeviceLists<'_> {
    /// Whether they mean nothing, so that nothing need be looked at.
    #[must_use]
    pub fn are_empty(&self) -> bool {
        self.compute.is_empty() && self.accelerator.is_empty()
    }
}

/// A function that one of the lists means, as one look saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFunction {
    /// The function.
    pub function: PciFunction,
    /// The names of its network interfaces.
    pub names: Vec<String>,
    /// What it can be parted into, where a type is enabled for it.
    pub mdevs: Option<SeenMdevs>,
    /// Whether it may be given out.
    pub condition: DeviceCondition,
}

/// The mediated devices of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMdevs {
    /// Their type, by the kernel's name (`nvidia-558`).
    pub mdev_type: String,
    /// The vendor's name for it (`GRID T4-2B`), where there is one.
    pub type_name: Option<String>,
    /// Their resource class.
    pub class: ResourceClass,
    /// Those that exist.
    pub existing: BTreeSet<Uuid>,
    /// How many there can be in all, those that exist among them.
    pub total: u64,
}

/// What is offered, and what is not although a list means it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfferedDevices {
    /// The devices, by address.
    pub devices: Vec<OfferedDevice>,
    /// What breaks a rule.
    pub refused: Vec<DeviceRefusal>,
}

/// A listed function.
struct Listed<'a> {
    seen: &'a SeenFunction,
    allowed: Allowed,
}

impl Listed<'_> {
    fn address(&self) -> PciAddress {
        self.seen.function.address
    }

    /// The physical function, for a virtual one.
    fn physical(&self) -> Option<PciAddress> {
        match self.seen.function.sriov {
            Sriov::Virtual { physical } => Some(physical),
            Sriov::None | Sriov::Physical { .. } => None,
        }
    }

    /// Whether it is listed only so that virtual functions are made of it.
    fn is_to_be_parted(&self) -> bool {
        self.physical().is_none() && self.allowed.tags().num_vfs.is_some()
    }
}

/// The devices of a node. `functions` are all that either list may mean, as they were seen.
#[must_use]
pub fn offered_devices(
    node: &NodeName,
    lists: DeviceLists<'_>,
    functions: &[SeenFunction],
) -> OfferedDevices {
    let mut offered = OfferedDevices::default();
    let (mut compute, mut accelerator) = (Vec::new(), Vec::new());
    for seen in functions {
        let of = |list: &AllowList| list.admit(&seen.function, &seen.names).ok();
        let listed = |allowed| Listed { seen, allowed };
        match (of(lists.compute), of(lists.accelerator)) {
            (Some(one), Some(other)) => offered.refused.push(DeviceRefusal::TwoOwners {
                address: seen.function.address,
                compute: one.entry(),
                accelerator: other.entry(),
            }),
            (Some(one), None) => compute.push(listed(one)),
            (None, Some(other)) => accelerator.push(listed(other)),
            (None, None) => {}
        }
    }
    split_cards(&mut compute, &mut accelerator, &mut offered.refused);
    if lists.pci == PciInPlacement::Reported {
        if let Some(entry) = lists.compute.entry_with_devname() {
            offered.refused.push(DeviceRefusal::Devname { entry });
        }
        of_compute(compute, &mut offered);
    }
    of_accelerator(node, accelerator, &mut offered);
    offered.devices.sort_by_key(|device| device.address);
    offered
}

/// Takes out the virtual functions of one list whose physical function the other list offers: whoever gets that one takes
/// them away.
fn split_cards<'a>(
    compute: &mut Vec<Listed<'a>>,
    accelerator: &mut Vec<Listed<'a>>,
    refused: &mut Vec<DeviceRefusal>,
) {
    let whole = |list: &[Listed<'_>]| -> BTreeSet<PciAddress> {
        let whole = list.iter().filter(|one| !one.is_to_be_parted());
        whole.map(Listed::address).collect()
    };
    let (of_compute, of_accelerator) = (whole(compute), whole(accelerator));
    for (list, others) in [(compute, of_accelerator), (accelerator, of_compute)] {
        list.retain(|one| {
            let physical = one.physical().filter(|it| others.contains(it));
            if let Some(physical) = physical {
                refused.push(DeviceRefusal::WholeAndInParts {
                    physical,
                    parts: vec![one.address()],
                });
            }
            physical.is_none()
        });
    }
}

/// Nova's devices: one for each card.
fn of_compute(listed: Vec<Listed<'_>>, offered: &mut OfferedDevices) {
    let mut cards: BTreeMap<PciAddress, Vec<Listed<'_>>> = BTreeMap::new();
    for one in listed {
        // Those are for ports of networks, and are not reported as devices.
        if one.allowed.tags().physical_network.is_some() || one.is_to_be_parted() {
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
    parts: &[Listed<'_>],
) -> Result<Option<OfferedDevice>, DeviceRefusal> {
    let virtuals: Vec<_> = parts
        .iter()
        .filter(|part| part.address() != address)
        .map(Listed::address)
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
    for part in parts {
        if compute_class(part) != class || compute_traits(part) != traits {
            return Err(DeviceRefusal::MixedCard {
                physical: address,
                first: first.address(),
                other: part.address(),
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
    let (set_aside, condition) = parts_that_are_not_fit(parts);
    Ok(Some(OfferedDevice {
        address,
        vendor_id: function.vendor,
        product_id: function.device,
        owner: DeviceOwner::Compute,
        device_type: kind::device_type(function),
        model: None,
        numa_node: function.numa_node,
        // One that is on a network is none of these.
        physical_network: None,
        class,
        class_origin: ClassOrigin::Said,
        traits,
        handles: parts.iter().map(handle).collect(),
        unit: DeviceUnit::Handle,
        set_aside,
        one_time_use: first.allowed.tags().one_time_use == Some(true),
        condition,
    }))
}

fn handle(part: &Listed<'_>) -> OfferedHandle {
    OfferedHandle::Function(part.address())
}

/// A card sets aside those of its parts that are not fit. Where none is, it is unfit itself for the first one's reason.
fn parts_that_are_not_fit(parts: &[Listed<'_>]) -> (BTreeSet<OfferedHandle>, DeviceCondition) {
    let is_unfit = |part: &&Listed<'_>| part.seen.condition != DeviceCondition::Fit;
    let unfit: BTreeSet<_> = parts.iter().filter(is_unfit).map(handle).collect();
    if unfit.len() < parts.len() {
        return (unfit, DeviceCondition::Fit);
    }
    let condition = parts.first().map(|part| part.seen.condition);
    (BTreeSet::new(), condition.unwrap_or_default())
}

fn compute_class(part: &Listed<'_>) -> ResourceClass {
    let tagged = part.allowed.tags().resource_class.clone();
    tagged.unwrap_or_else(|| {
        ResourceClass::pci_device(part.seen.function.vendor, part.seen.function.device)
    })
}

fn compute_traits(part: &Listed<'_>) -> BTreeSet<Trait> {
    let tags = part.allowed.tags();
    let mut traits = tags.traits.clone();
    if tags.live_migratable == Some(true) {
        traits.insert(kind::LIVE_MIGRATABLE);
    }
    traits
}

/// Cyborg's devices: one for each function.
fn of_accelerator(node: &NodeName, listed: Vec<Listed<'_>>, offered: &mut OfferedDevices) {
    let parted: BTreeSet<_> = listed.iter().filter_map(Listed::physical).collect();
    let slot = |one: &Listed<'_>| {
        let address = one.address();
        (address.domain(), address.bus(), address.slot())
    };
    let is_gpu = |one: &Listed<'_>| kind::device_type(&one.seen.function) == DeviceType::Gpu;
    let graphics: BTreeSet<_> = listed.iter().filter(|one| is_gpu(one)).map(slot).collect();
    let mut cards: BTreeMap<_, Vec<Listed<'_>>> = BTreeMap::new();
    for one in listed {
        // A graphics card's sound and USB functions go where it goes, and are listed for that alone.
        let accompanies = !is_gpu(&one) && graphics.contains(&slot(&one));
        if parted.contains(&one.address()) || one.is_to_be_parted() || accompanies {
            continue;
        }
        match kind::is_of_a_xilinx_card(&one.seen.function) {
            true => cards.entry(slot(&one)).or_default().push(one),
            false => offered.devices.push(accelerator(node, &one)),
        }
    }
    for functions in cards.into_values() {
        match whole_card(node, &functions) {
            Ok(device) => offered.devices.extend(device),
            Err(refused) => offered.refused.push(refused),
        }
    }
}

/// A card whose functions go to one guest together, under the name of the first.
fn whole_card(
    node: &NodeName,
    functions: &[Listed<'_>],
) -> Result<Option<OfferedDevice>, DeviceRefusal> {
    let Some(first) = functions.iter().min_by_key(|one| one.address()) else {
        return Ok(None);
    };
    let (tags, address) = (first.allowed.tags(), first.address());
    let is_other = |one: &&Listed<'_>| {
        let said = one.allowed.tags();
        said.resource_class != tags.resource_class || said.traits != tags.traits
    };
    if let Some(other) = functions.iter().find(is_other) {
        return Err(DeviceRefusal::MixedFunctions {
            first: address,
            other: other.address(),
        });
    }
    let mut device = accelerator(node, first);
    device.handles = functions.iter().map(handle).collect();
    device.handles.sort();
    device.unit = DeviceUnit::Device;
    let mut conditions = functions.iter().map(|one| one.seen.condition);
    let unfit = conditions.find(|condition| *condition != DeviceCondition::Fit);
    device.condition = unfit.unwrap_or_default();
    Ok(Some(device))
}

fn accelerator(node: &NodeName, one: &Listed<'_>) -> OfferedDevice {
    let SeenFunction {
        function, mdevs, ..
    } = one.seen;
    let tags = one.allowed.tags();
    let physical_network = tags.physical_network.as_deref();
    let physical_network = physical_network.filter(|name| !name.is_empty());
    let device_type = kind::device_type(function);
    let class = tags.resource_class.clone();
    let traits = match tags.traits.is_empty() {
        true => kind::cyborgs_traits(function, device_type, mdevs.as_ref(), physical_network),
        false => tags.traits.clone(),
    };
    let (of_kind, handles) = match mdevs {
        Some(mdevs) => (
            mdevs.class.clone(),
            mdev_handles(node, function.address, mdevs),
        ),
        None => (
            device_type.resource_class(),
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
        physical_network: physical_network.map(str::to_owned),
        class_origin: match class {
            Some(_) => ClassOrigin::Said,
            None => ClassOrigin::Usual,
        },
        class: class.unwrap_or(of_kind),
        traits,
        handles,
        unit: DeviceUnit::Handle,
        set_aside: BTreeSet::new(),
        one_time_use: tags.one_time_use == Some(true),
        condition: one.seen.condition,
    }
}

/// Those that exist, whoever made them, and for the rest numbers of our own: the lowest that do not exist. So a handle stays
/// what it is while devices of ours come and go.
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

#[cfg(test)]
mod tests;
