//! Which devices of a host are offered to guests, whose they are and as what: the operator's two lists held against what is
//! there. Pure but for [`crate::Sysfs::look_at_devices`].
//!
//! `[pci] device_spec` is the compute service's list and follows Nova's rules whole: a virtual function counts on its physical
//! one, which is offered itself or by its virtual functions but not by both, and all of these have one class and the same traits.
//! `[accelerators] device_spec` is the accelerator service's and follows Cyborg's: each function is a device of its own, and a
//! physical one whose virtual functions are offered is none; the functions of a Xilinx card are one, and so are the virtual
//! functions of an Intel gate array. What breaks a rule is left out and told ([`DeviceRefusal`]).

mod accelerator;
mod beforehand;
mod compute;
mod kind;
mod look;
mod refusal;

use std::collections::BTreeSet;

use berth_model::{NodeName, PciAddress, ResourceClass};
use berth_virt::{DeviceCondition, OfferedDevice, OfferedHandle, PciInPlacement};
use uuid::Uuid;

use crate::{AllowList, Allowed, PciFunction, Sriov};
pub use look::{Baseline, ConditionNews, LastLook};
pub use refusal::DeviceRefusal;

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
    pub class: ResourceClass,
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
        compute::offer(compute, &mut offered);
    }
    accelerator::offer(node, accelerator, &mut offered);
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

#[cfg(test)]
mod tests;
