//! The provider tree created from an empty Placement, and again from the result.

use berth_model::{NodeName, Plan, Provider, ProviderTree, ProviderUuid, Usages, plan};
use uuid::Uuid;

use super::{Promise, Violation, broken};
use crate::{HostView, VirtDriver};

/// The root's UUID in the suite's trees.
pub(super) fn root_uuid() -> ProviderUuid {
    Uuid::from_bytes([0xb0; 16]).into()
}

pub(super) fn bare(node: &NodeName) -> ProviderTree {
    ProviderTree::new(Provider::root(root_uuid(), node.root_name().clone()))
}

pub(super) fn check(driver: &impl VirtDriver, view: &HostView, node: &NodeName) -> Vec<Violation> {
    let bare = bare(node);
    let (first, second) = (
        driver.update_provider_tree(view, &bare, node),
        driver.update_provider_tree(view, &bare, node),
    );
    let mut violations = Vec::new();
    if first != second {
        let detail = "two different trees are wanted";
        violations.push(broken(Promise::IsPure, Some(node), detail));
    }
    match reported(driver, view, node, &bare) {
        Ok(tree) => violations.extend(in_sync(driver, view, node, &tree)),
        Err(violation) => violations.push(violation),
    }
    violations
}

/// The tree after a plain update of `current`.
pub(super) fn reported(
    driver: &impl VirtDriver,
    view: &HostView,
    node: &NodeName,
    current: &ProviderTree,
) -> Result<ProviderTree, Violation> {
    let refuse = |detail: String| broken(Promise::StartsWithAnUpdate, Some(node), detail);
    let desired = driver
        .update_provider_tree(view, current, node)
        .map_err(|error| refuse(error.to_string()))?;
    match plan(current, desired, &Usages::new()) {
        Plan::InSync { .. } => Ok(current.clone()),
        Plan::Update { diff, .. } => diff
            .apply(current)
            .map_err(|error| refuse(error.to_string())),
        Plan::ReshapeNeeded(pending) => Err(refuse(pending.to_string())),
    }
}

/// Nothing is left to do.
pub(super) fn in_sync(
    driver: &impl VirtDriver,
    view: &HostView,
    node: &NodeName,
    tree: &ProviderTree,
) -> Option<Violation> {
    let left = match driver.update_provider_tree(view, tree, node) {
        Ok(desired) => match plan(tree, desired, &Usages::new()) {
            Plan::InSync { .. } => return None,
            left => left.to_string(),
        },
        Err(error) => error.to_string(),
    };
    Some(broken(Promise::IsInSyncAfterAnUpdate, Some(node), left))
}

pub(super) fn check_unknown_node(driver: &impl VirtDriver, view: &HostView) -> Option<Violation> {
    let longest = view.nodes.keys().map(|node| node.as_str().len()).max();
    let unknown = "x".repeat(longest.unwrap_or(0).min(159) + 1);
    let unknown = NodeName::new(&unknown).ok()?;
    if view.nodes.contains_key(&unknown) {
        return None;
    }
    let wanted = driver.update_provider_tree(view, &bare(&unknown), &unknown);
    wanted.is_ok().then(|| {
        let detail = "a tree is wanted for a node that is not seen";
        broken(Promise::RefusesAnUnknownNode, Some(&unknown), detail)
    })
}
