//! Determines which devices of a host are offered to guests, by which service and as what, from the operator's two
//! lists and the observed functions. Pure except for [`crate::Sysfs::observe_devices`].
//!
//! `[pci] device_spec` is the compute service's list and follows Nova's rules: a physical function is offered itself or
//! by its virtual functions, but not both, and all of these have the same class and traits. `[accelerators]
//! device_spec` is the accelerator service's list and follows Cyborg's rules: each function is a device, except a
//! physical function with offered virtual functions. The functions of a Xilinx card are one device, and so are the
//! virtual functions of an Intel FPGA. A device that violates a rule is omitted and reported ([`DeviceRefusal`]).

mod accelerator;
mod compute;
mod existing_functions;
mod kind;
mod observe;
mod refusal;

use std::collections::BTreeSet;

use berth_model::{NodeName, PciAddress, ResourceClass};
use berth_virt::{
    DeviceCondition, NetworkFunctionFacts, OfferedDevice, OfferedHandle, PciInPlacement,
};
use uuid::Uuid;

use crate::{AllowList, AllowedFunction, PciFunction, Sriov};
pub use observe::{Baseline, ConditionChange, LastObservation};
pub use refusal::DeviceRefusal;

#[derive(Debug, Clone, Copy)]
pub struct DeviceLists<'a> {
    /// `[pci] device_spec`.
    pub compute: &'a AllowList,
    /// `[pci] report_in_placement`: if off, the compute service's devices are not offered.
    pub pci: PciInPlacement,
    /// `[accelerators] device_spec`.
    pub accelerator: &'a AllowList,
}

impl DeviceLists<'_> {
    /// Whether both lists are empty, so that nothing needs to be observed.
    #[must_use]
    pub fn are_empty(&self) -> bool {
        self.compute.is_empty() && self.accelerator.is_empty()
    }
}

/// An observed function that matches one of the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFunction {
    pub function: PciFunction,
    /// The names of its network interfaces.
    pub names: Vec<String>,
    /// Its mediated devices, if a type is enabled for it.
    pub mdevs: Option<SeenMdevs>,
    /// The facts that Neutron's port binding needs. Only for a function that the compute service's list has with a
    /// `physical_network`: a virtual one, or a physical one without virtual ones.
    pub network: Option<NetworkFunctionFacts>,
    /// Whether it may be given out.
    pub condition: DeviceCondition,
}

/// The mediated devices of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMdevs {
    /// Their type, by the kernel's name (`nvidia-558`).
    pub mdev_type: String,
    /// The vendor's name of the type (`GRID T4-2B`), if provided.
    pub type_name: Option<String>,
    pub class: ResourceClass,
    pub existing: BTreeSet<Uuid>,
    /// The maximum number, including existing ones.
    pub total: u64,
}

/// The offered devices, and the devices that match a list but cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfferedDevices {
    /// The devices, by address.
    pub devices: Vec<OfferedDevice>,
    /// Violations of the rules.
    pub refused: Vec<DeviceRefusal>,
}

struct ListedFunction<'a> {
    seen: &'a SeenFunction,
    allowed: AllowedFunction,
}

impl ListedFunction<'_> {
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

    /// The physical network of a function that is for ports.
    fn port_network(&self) -> Option<&str> {
        let network = self.allowed.tags().physical_network.as_deref();
        let is_one = match self.seen.function.sriov {
            Sriov::Virtual { .. } => true,
            Sriov::Physical { .. } => self.is_whole_card(),
            Sriov::None => false,
        };
        network.filter(|name| !name.is_empty() && is_one)
    }

    /// Whether it is a physical function without virtual ones.
    fn is_whole_card(&self) -> bool {
        matches!(self.seen.function.sriov, Sriov::Physical { enabled: 0, .. })
    }

    /// Whether it is listed only to create virtual functions.
    fn creates_virtual_functions(&self) -> bool {
        self.physical().is_none() && self.allowed.tags().num_vfs.is_some()
    }
}

/// The devices of a node. `functions` are all observed functions that match a list.
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
        let listed = |allowed| ListedFunction { seen, allowed };
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

/// Removes the virtual functions of one list if the other list offers their physical function, because a guest with the
/// physical function controls them.
fn split_cards<'a>(
    compute: &mut Vec<ListedFunction<'a>>,
    accelerator: &mut Vec<ListedFunction<'a>>,
    refused: &mut Vec<DeviceRefusal>,
) {
    let whole = |list: &[ListedFunction<'_>]| -> BTreeSet<PciAddress> {
        let whole = list.iter().filter(|one| !one.creates_virtual_functions());
        whole.map(ListedFunction::address).collect()
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

fn handle(part: &ListedFunction<'_>) -> OfferedHandle {
    OfferedHandle::Function(part.address())
}

/// Sets aside the unfit handles of a card. If none is fit, the card itself is unfit, with the first handle's reason.
fn unfit_parts(parts: &[ListedFunction<'_>]) -> (BTreeSet<OfferedHandle>, DeviceCondition) {
    let is_unfit = |part: &&ListedFunction<'_>| part.seen.condition != DeviceCondition::Fit;
    let unfit: BTreeSet<_> = parts.iter().filter(is_unfit).map(handle).collect();
    if unfit.len() < parts.len() {
        return (unfit, DeviceCondition::Fit);
    }
    let condition = parts.first().map(|part| part.seen.condition);
    (BTreeSet::new(), condition.unwrap_or_default())
}

#[cfg(test)]
mod tests;
