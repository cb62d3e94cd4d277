//! The status of each device that an instance can get: who has it, and why it is not free.

use berth_agent_journal::{NamedDevice as _, Quarantine};
use berth_model::{ArqUuid, ConsumerUuid, NodeName};
use berth_virt::{DeviceOwner, OfferedDevice, OfferedHandle, VirtDriver};

use crate::devices::{Devices, Known, Seen};
use crate::overlay;

/// Why a device of the accelerator service is not free before the service has reported on it.
const NO_WORD: &str = "the accelerator service has not said yet whether it is clean";

/// A function or mediated device that an instance can get.
#[derive(Debug, Clone)]
pub struct DeviceStatus {
    pub name: String,
    pub node: NodeName,
    pub handle: OfferedHandle,
    /// The device that offers it, as it was observed.
    pub device: OfferedDevice,
    /// `free`, `held`, `bound`, `unclean`, `resetting`, `quarantined` or `unfit`.
    pub state: &'static str,
    /// Why it is not allocated.
    pub reason: Option<String>,
    /// The instance that has it.
    pub guest: Option<ConsumerUuid>,
    /// The accelerator request that it is bound to.
    pub arq: Option<ArqUuid>,
    pub quarantine: Option<Quarantine>,
}

impl<D: VirtDriver> Devices<D> {
    /// The status of all devices; with a name, of those with that name or that card's address.
    #[must_use]
    pub fn statuses(&self, name: Option<&str>) -> Vec<DeviceStatus> {
        let awaits = self.awaits_word();
        let known = &*self.known();
        let name = name.map(|name| name.trim().to_ascii_lowercase());
        let mut statuses = Vec::new();
        for (node, seen) in &known.seen {
            for device in &seen.devices {
                for handle in &device.handles {
                    let own = handle.name();
                    let is_meant = name
                        .as_ref()
                        .is_none_or(|name| *name == own || *name == device.address.to_string());
                    if is_meant {
                        statuses.push(status(known, awaits, node, seen, device, handle));
                    }
                }
            }
        }
        statuses
    }
}

/// `awaits`: whether the accelerator service will report on each node.
fn status(
    known: &Known,
    awaits: bool,
    node: &NodeName,
    seen: &Seen,
    device: &OfferedDevice,
    handle: &OfferedHandle,
) -> DeviceStatus {
    let name = handle.name();
    let register = &known.register;
    let quarantine = register.quarantines.get(&name);
    let held = register.held.get(&name).or_else(|| seen.used.get(&name));
    let advice = known.advice(node);
    let bound = advice.and_then(|advice| advice.holders.get(&name));
    let unclean = advice.is_some_and(|advice| {
        let mut unclean = advice.unclean.iter();
        unclean.any(|it| it.name == name && register.cleaned.get(&name) != Some(&it.releases))
    });
    let is_unsaid = awaits && advice.is_none() && device.owner == DeviceOwner::Accelerator;
    let mut laid_over = device.clone();
    overlay::overlay(node, &mut laid_over, register);
    let unfit = overlay::reason(&laid_over, register);
    let (state, reason) = match (held, quarantine, &unfit, bound) {
        (Some(_), ..) => ("held", unfit.clone()),
        _ if register.cleaning.contains(&name) => ("resetting", None),
        (None, Some(why), ..) => ("quarantined", Some(why.reason.clone())),
        (None, None, Some(reason), _) => ("unfit", Some(reason.clone())),
        (None, None, None, Some(_)) => ("bound", None),
        (None, None, None, None) if unclean => ("unclean", None),
        (None, None, None, None) if is_unsaid => ("unclean", Some(NO_WORD.to_owned())),
        (None, None, None, None) => ("free", None),
    };
    DeviceStatus {
        name,
        node: node.clone(),
        handle: handle.clone(),
        device: device.clone(),
        state,
        reason,
        guest: held
            .copied()
            .or_else(|| bound.and_then(|holder| holder.guest)),
        arq: bound.map(|holder| holder.arq),
        quarantine: quarantine.cloned(),
    }
}
