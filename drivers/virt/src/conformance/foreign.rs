//! Parts of Placement's tree that do not belong to the driver.

use berth_model::{Inventory, NodeName, Provider, ProviderTree, ResourceClass, Trait};
use uuid::Uuid;

use super::{Promise, Violation, broken, trees};
use crate::{HostView, VirtDriver};

const UNKNOWN_CLASS: &str = "CUSTOM_BERTH_CONFORMANCE";
const THEIR_TRAIT: Trait = Trait::known("CUSTOM_BERTH_CONFORMANCE");

pub(super) fn check(driver: &impl VirtDriver, view: &HostView, node: &NodeName) -> Vec<Violation> {
    let Ok(mut tree) = trees::reported(driver, view, node, &trees::bare(node)) else {
        return Vec::new();
    };
    let Some(planted) = plant(&mut tree, node) else {
        return Vec::new();
    };
    let wanted = match driver.update_provider_tree(view, &tree, node) {
        Ok(desired) => desired.tree,
        Err(error) => return vec![broken(Promise::KeepsForeignParts, Some(node), error)],
    };
    let mut changes: Vec<String> = planted
        .iter()
        .filter(|theirs| wanted.get(theirs.uuid()) != Some(theirs))
        .map(|theirs| format!("provider {} is not as it was", theirs.name))
        .collect();
    let (before, after) = (tree.root(), wanted.root());
    for kept in [
        THEIR_TRAIT,
        Trait::COMPUTE_NODE,
        Trait::COMPUTE_STATUS_DISABLED,
    ] {
        if !after.traits.contains(&kept) {
            changes.push(format!("trait {kept} is gone from the root"));
        }
    }
    for (class, inventory) in &before.inventories {
        if class.as_str() == UNKNOWN_CLASS && after.inventories.get(class) != Some(inventory) {
            changes.push(format!("inventory {class} is not as it was"));
        }
    }
    changes
        .into_iter()
        .map(|detail| broken(Promise::KeepsForeignParts, Some(node), detail))
        .collect()
}

/// Adds foreign parts to the tree: a child of Cyborg, one of the PCI tracker, a sharing provider,
/// an inventory and traits.
fn plant(tree: &mut ProviderTree, node: &NodeName) -> Option<Vec<Provider>> {
    let class = ResourceClass::new(UNKNOWN_CLASS).ok()?;
    let one = Inventory::of(1).ok()?;
    let root = tree.root_mut();
    root.traits.extend([
        THEIR_TRAIT,
        Trait::COMPUTE_NODE,
        Trait::COMPUTE_STATUS_DISABLED,
    ]);
    root.inventories.insert(class.clone(), one.clone());
    let uuid = |n: u8| Uuid::from_bytes([n; 16]).into();
    let mut planted = Vec::new();
    for (n, suffix, theirs) in [
        (0xc1, "conformance_fpga", Trait::OWNER_CYBORG),
        (0xc2, "0000:AB:1C.7", Trait::OWNER_NOVA),
    ] {
        let name = node.child_name(suffix).ok()?;
        let mut child = Provider::child(uuid(n), name, trees::root_uuid());
        child.traits.insert(theirs);
        child.inventories.insert(class.clone(), one.clone());
        planted.push(child);
    }
    let mut share = Provider::root(uuid(0xc3), "berth-conformance-share".parse().ok()?);
    share.traits.insert(Trait::MISC_SHARES_VIA_AGGREGATE);
    share.inventories.insert(ResourceClass::DISK_GB, one);
    planted.push(share);
    for provider in &planted {
        tree.insert(provider.clone()).ok()?;
    }
    Some(planted)
}
