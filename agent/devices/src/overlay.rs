//! Adds what the agent knows to observed devices ([`overlay_all`]): disabled, unhealthy and quarantined devices, and the
//! partitions of the NVSwitch fabric, which replace their GPUs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{NamedDevice as _, QuarantinedBy, Register, names};
use berth_model::{ConsumerUuid, NodeName, PciAddress, ProviderUuid};
use berth_virt::{
    DeviceCondition, DeviceOwner, FabricPartitions, HostView, IncompletePartition, OfferedDevice,
    UnfitReason,
};

/// Adds the conditions in the register to all devices of a view, and replaces GPUs by their partitions. Returns the partitions
/// that no node of the host can offer. Tools that observe the host without an agent use it, too.
pub fn overlay_all(
    view: &mut HostView,
    register: &Register,
    partitions: &FabricPartitions,
) -> Vec<IncompletePartition> {
    let mut claimed: BTreeMap<ConsumerUuid, BTreeSet<PciAddress>> = BTreeMap::new();
    for (device, guest) in &register.held {
        if let Ok(function) = device.parse() {
            claimed.entry(*guest).or_default().insert(function);
        }
    }
    let mut incomplete: Option<Vec<IncompletePartition>> = None;
    for (name, node) in &mut view.nodes {
        for device in &mut node.devices {
            overlay(name, device, register);
        }
        let here = partitions.offer_in(node, &claimed);
        let mut before = incomplete.unwrap_or_else(|| here.clone());
        before.retain(|partition| here.iter().any(|other| other.id == partition.id));
        incomplete = Some(before);
    }
    incomplete.unwrap_or_default()
}

/// Marks a device as unfit, unless the driver already did.
pub(super) fn overlay(node: &NodeName, device: &mut OfferedDevice, register: &Register) {
    if device.condition != DeviceCondition::Fit {
        return;
    }
    if is_disabled(node, device, register) {
        let reason = UnfitReason::Disabled;
        device.condition = DeviceCondition::Unfit { reason };
        return;
    }
    if register.unhealthy.contains_key(&device.address.to_string()) {
        let reason = UnfitReason::Vendor;
        device.condition = DeviceCondition::Unfit { reason };
        return;
    }
    let quarantine = |name: &String| register.quarantines.get(name);
    let names = names(device);
    let mut whole = names.iter().filter_map(quarantine).peekable();
    let Some(first) = whole.peek() else { return };
    let reason = match first.by {
        QuarantinedBy::Agent => UnfitReason::ResetFailed,
        QuarantinedBy::Operator => UnfitReason::Quarantined,
    };
    if whole.count() == names.len() {
        device.condition = DeviceCondition::Unfit { reason };
        return;
    }
    // If only some handles of a card are quarantined, they are set aside. A handle in use counts as used until its
    // release.
    let aside = device.handles.iter().filter(|handle| {
        let name = handle.name();
        quarantine(&name).is_some() && !register.held.contains_key(&name)
    });
    device.unfit_handles.extend(aside.cloned());
}

/// Why a device is unfit, with the output of the health check if that is the reason.
pub(super) fn reason(device: &OfferedDevice, register: &Register) -> Option<String> {
    let reason = device.condition.reason()?;
    let words = match reason {
        UnfitReason::Vendor => register.unhealthy.get(&device.address.to_string()),
        _ => None,
    };
    Some(match words {
        Some(words) => format!("{reason}: {words}"),
        None => reason.to_string(),
    })
}

fn is_disabled(node: &NodeName, device: &OfferedDevice, register: &Register) -> bool {
    let provider = ProviderUuid::of_deployable(&device.provider_name(node));
    device.owner == DeviceOwner::Accelerator
        && register
            .disabled
            .get(node)
            .is_some_and(|disabled| disabled.contains(&provider))
}
