//! Guarantees about offered devices as reported to Placement.

use std::collections::BTreeSet;

use berth_model::{Inventory, NodeName, Plan, Provider, ProviderTree, Trait, Usages, plan};

use super::{Promise, Violation, broken, changed, trees};
use crate::{
    DeviceCondition, DeviceOwner, HostView, NodeView, OfferedDevice, OfferedHandle, PciInPlacement,
    UnfitReason, VirtDriver,
};

pub(super) fn check(driver: &impl VirtDriver, view: &HostView, node: &NodeName) -> Vec<Violation> {
    let Some(seen) = view.nodes.get(node) else {
        return Vec::new();
    };
    let mut violations = offered_once(node, seen);
    let Ok(tree) = trees::reported(driver, view, node, &trees::bare(node)) else {
        return violations;
    };
    let is_reported = |device: &&OfferedDevice| {
        let reported =
            device.owner == DeviceOwner::Accelerator || seen.pci == PciInPlacement::Reported;
        reported
            && device.condition.reason() != Some(UnfitReason::Vanished)
            && !device.handles.is_empty()
    };
    for device in seen.devices.iter().filter(is_reported) {
        violations.extend(reported(node, &tree, device));
        violations.extend(unfit(driver, view, node, &tree, device));
        violations.extend(check_gone(driver, view, node, &tree, device).err());
    }
    violations
}

fn offered_once(node: &NodeName, seen: &NodeView) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut twice = |detail: String| {
        violations.push(broken(Promise::OffersADeviceOnce, Some(node), detail));
    };
    let (mut names, mut parts) = (BTreeSet::new(), BTreeSet::new());
    for device in &seen.devices {
        let name = device.provider_name(node);
        if !names.insert(name.clone()) {
            twice(format!("two devices are named {name}"));
        }
        for part in &device.handles {
            if !parts.insert(part) {
                twice(format!("{part:?} is in two devices"));
            }
            let also = match part {
                OfferedHandle::Function(function) => {
                    let mut cards = seen.functions.iter();
                    cards.any(|card| card.addresses.contains(function))
                }
                OfferedHandle::Mdev { parent, .. } => {
                    let mut gpus = seen.gpus.iter();
                    gpus.any(|gpu| gpu.address == *parent && gpu.offered.is_some())
                }
            };
            if also {
                twice(format!("{part:?} is offered by its card, too"));
            }
        }
    }
    violations
}

fn child<'a>(
    tree: &'a ProviderTree,
    node: &NodeName,
    device: &OfferedDevice,
) -> Option<&'a Provider> {
    let child = tree.by_name(&device.provider_name(node))?;
    let parent = match &device.link_group {
        Some(group) => tree.by_name(&node.link_group_name(group))?,
        None => tree.root(),
    };
    (child.parent() == Some(parent.uuid())).then_some(child)
}

fn inventory<'a>(child: &'a Provider, device: &OfferedDevice) -> Option<&'a Inventory> {
    let only = child.inventories.len() == 1;
    child.inventories.get(&device.class).filter(|_| only)
}

fn reported(node: &NodeName, tree: &ProviderTree, device: &OfferedDevice) -> Option<Violation> {
    let name = device.provider_name(node);
    let wrong = |detail: String| Some(broken(Promise::ReportsItsDevices, Some(node), detail));
    let Some(child) = child(tree, node, device) else {
        return wrong(format!(
            "{name} is no child of the root or of its link group"
        ));
    };
    let total = inventory(child, device).map(|inventory| u64::from(inventory.total));
    if total != Some(device.units()) {
        return wrong(format!(
            "{name} has {} units and its inventories are {:?}",
            device.units(),
            child.inventories
        ));
    }
    let marks = match device.owner {
        DeviceOwner::Compute => vec![Trait::known("COMPUTE_MANAGED_PCI_DEVICE")],
        DeviceOwner::Accelerator => vec![Trait::OWNER_CYBORG, Trait::CUSTOM_OWNER_BERTH],
    };
    let missing = marks.iter().find(|mark| !child.traits.contains(*mark));
    missing.and_then(|mark| wrong(format!("{name} lacks {mark}")))
}

fn set(view: &HostView, node: &NodeName, device: &OfferedDevice, to: DeviceCondition) -> HostView {
    changed(view, node, |seen| {
        for one in &mut seen.devices {
            if one.address == device.address {
                one.condition = to;
            }
        }
    })
}

/// The result of one tick.
fn ticked(
    driver: &impl VirtDriver,
    view: &HostView,
    node: &NodeName,
    current: &ProviderTree,
    usages: &Usages,
) -> Result<ProviderTree, String> {
    let desired = driver
        .update_provider_tree(view, current, node)
        .map_err(|error| error.to_string())?;
    match plan(current, desired, usages) {
        Plan::InSync { .. } => Ok(current.clone()),
        Plan::Update { diff, .. } => diff.apply(current).map_err(|error| error.to_string()),
        Plan::ReshapeNeeded(pending) => Err(pending.to_string()),
    }
}

/// Each reason reserves all units and is reported as a trait; when the device is fit again, an
/// operator's reservation is restored.
fn unfit(
    driver: &impl VirtDriver,
    view: &HostView,
    node: &NodeName,
    tree: &ProviderTree,
    device: &OfferedDevice,
) -> Option<Violation> {
    let fit = set(view, node, device, DeviceCondition::Fit);
    let tick =
        |view: &HostView, tree: &ProviderTree| ticked(driver, view, node, tree, &Usages::new());
    let outcome = || -> Result<(), String> {
        let well = tick(&fit, tree)?;
        let reasons = UnfitReason::ALL.into_iter();
        for reason in reasons.filter(|reason| *reason != UnfitReason::Vanished) {
            let unhealthy = set(view, node, device, DeviceCondition::Unfit { reason });
            let reported = tick(&unhealthy, &well)?;
            let one = child(&reported, node, device).ok_or("it is gone")?;
            let all = inventory(one, device).is_some_and(|all| all.reserved == all.total);
            if !all || !one.traits.contains(&reason.as_trait()) {
                return Err(format!("unfit ({reason}), and is {one:?}"));
            }
            if tick(&unhealthy, &reported)? != reported {
                return Err(format!("unfit ({reason}): reported twice"));
            }
            if tick(&fit, &reported)? != well {
                return Err(format!("well again after {reason}, and not as before"));
            }
        }
        Ok(())
    };
    let name = device.provider_name(node);
    let detail = outcome().err()?;
    let detail = format!("{name}: {detail}");
    Some(broken(Promise::ReportsItsDevices, Some(node), detail))
}

fn check_gone(
    driver: &impl VirtDriver,
    view: &HostView,
    node: &NodeName,
    tree: &ProviderTree,
    device: &OfferedDevice,
) -> Result<(), Violation> {
    let name = device.provider_name(node);
    let fails = |detail: String| {
        let detail = format!("{name}: {detail}");
        broken(Promise::HoldsMissingDevices, Some(node), detail)
    };
    // An unfit device is fully reserved, which another guarantee covers.
    let view = &set(view, node, device, DeviceCondition::Fit);
    let tree = &ticked(driver, view, node, tree, &Usages::new()).map_err(&fails)?;
    let without = changed(view, node, |seen| {
        seen.devices.retain(|one| one.address != device.address);
    });
    let Some(before) = child(tree, node, device) else {
        return Ok(());
    };
    let place = (before.uuid(), device.class.clone());
    let tick = |view: &HostView, tree: &ProviderTree, used: u64| {
        let usages = Usages::from([(place.clone(), used)]);
        ticked(driver, view, node, tree, &usages).map_err(&fails)
    };
    let held = tick(&without, tree, 1)?;
    let is_held = |tree: &ProviderTree| {
        tree.get(before.uuid()).is_some_and(|one| {
            let is_marked = one.traits.contains(&UnfitReason::Vanished.as_trait());
            is_marked && inventory(one, device).is_some_and(Inventory::is_held)
        })
    };
    if !is_held(&held) || tick(&without, &held, 1)? != held {
        return Err(fails(format!("gone and in use, and is\n{held}")));
    }
    if tick(view, &held, 1)?.get(before.uuid()) != Some(before) && !device.one_time_use {
        return Err(fails("back, and not as before".to_owned()));
    }
    match tick(&without, &held, 0)?.get(before.uuid()) {
        None => Ok(()),
        Some(left) => Err(fails(format!("gone and free, and is {left:?}"))),
    }
}
