//! The status of each device that an instance can get: its user, and why it is not free ([`DeviceManager::statuses`]).

use berth_agent_journal::{NamedDevice as _, Quarantine};
use berth_model::{ArqUuid, ConsumerUuid, NodeName};
use berth_virt::{DeviceOwner, OfferedDevice, OfferedHandle, VirtDriver};

use crate::devices::{DeviceManager, DeviceTable, NodeObservation};
use crate::overlay;

/// Why a device is not free before the accelerator service has answered.
const NO_WORD: &str = "the accelerator service has not reported yet whether it is clean";

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
    /// Why the device cannot be allocated.
    pub reason: Option<String>,
    /// The instance that uses it.
    pub guest: Option<ConsumerUuid>,
    /// The accelerator request that it is bound to.
    pub arq: Option<ArqUuid>,
    pub quarantine: Option<Quarantine>,
}

impl<D: VirtDriver> DeviceManager<D> {
    /// The status of all devices; with a name, of those with that name or that card's address.
    #[must_use]
    pub fn statuses(&self, name: Option<&str>) -> Vec<DeviceStatus> {
        let awaits = self.awaits_service_report();
        let table = &*self.table();
        let name = name.map(|name| name.trim().to_ascii_lowercase());
        let mut statuses = Vec::new();
        for (node, observation) in &table.observed {
            for device in &observation.devices {
                for handle in &device.handles {
                    let own = handle.name();
                    let is_meant = name
                        .as_ref()
                        .is_none_or(|name| *name == own || *name == device.address.to_string());
                    if is_meant {
                        statuses.push(status(table, awaits, node, observation, device, handle));
                    }
                }
            }
        }
        statuses
    }
}

/// `awaits`: whether the accelerator service will report on each node.
fn status(
    table: &DeviceTable,
    awaits: bool,
    node: &NodeName,
    observation: &NodeObservation,
    device: &OfferedDevice,
    handle: &OfferedHandle,
) -> DeviceStatus {
    let name = handle.name();
    let register = &table.register;
    let quarantine = register.quarantines.get(&name);
    let held = register
        .held
        .get(&name)
        .or_else(|| observation.used.get(&name));
    let advice = table.advice(node);
    let bound = advice.and_then(|advice| advice.holders.get(&name));
    let unclean = advice.is_some_and(|advice| {
        let mut unclean = advice.unclean.iter();
        unclean.any(|handle| {
            handle.name == name
                && register.release_count_at_reset.get(&name) != Some(&handle.release_count)
        })
    });
    let is_unreported = awaits && advice.is_none() && device.owner == DeviceOwner::Accelerator;
    let mut with_conditions = device.clone();
    overlay::overlay(node, &mut with_conditions, register);
    let unfit = overlay::reason(&with_conditions, register);
    let (state, reason) = match (held, quarantine, &unfit, bound) {
        (Some(_), ..) => ("held", unfit.clone()),
        _ if register.running_resets.contains(&name) => ("resetting", None),
        (None, Some(why), ..) => ("quarantined", Some(why.reason.clone())),
        (None, None, Some(reason), _) => ("unfit", Some(reason.clone())),
        (None, None, None, Some(_)) => ("bound", None),
        (None, None, None, None) if unclean => ("unclean", None),
        (None, None, None, None) if is_unreported => ("unclean", Some(NO_WORD.to_owned())),
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
