//! Every change of the model, with the guests' allocations and with an unknown consumer.

use std::collections::BTreeMap;

use berth_model::{
    Allocations, ConsumerAllocations, ConsumerUuid, NodeName, Plan, ProviderTree, ReshapeRequest,
    plan,
};
use uuid::Uuid;

use super::{Promise, Violation, broken, changed, trees};
use crate::{HostView, ResourceModel, Resources, TreePair, VirtDriver, guest_allocations};

pub(super) fn check(driver: &impl VirtDriver, view: &HostView, node: &NodeName) -> Vec<Violation> {
    let mut violations = Vec::new();
    for old in ResourceModel::all() {
        for new in ResourceModel::all().filter(|new| *new != old) {
            violations.extend(change(driver, view, node, old, new).err());
        }
    }
    violations
}

fn change(
    driver: &impl VirtDriver,
    view: &HostView,
    node: &NodeName,
    old: ResourceModel,
    new: ResourceModel,
) -> Result<(), Violation> {
    let before = changed(view, node, |seen| seen.model = old);
    let after = changed(view, node, |seen| seen.model = new);
    let current = trees::reported(driver, &before, node, &trees::bare(node))?;
    let held = allocations_of_guests(&before, node, &current);
    let fails = |detail: String| {
        let detail = format!("{old:?} to {new:?}: {detail}");
        broken(Promise::Reshapes, Some(node), detail)
    };
    let desired = driver
        .update_provider_tree(&after, &current, node)
        .map_err(|error| fails(error.to_string()))?;
    let Plan::ReshapeNeeded(pending) = plan(&current, desired, &held.usages()) else {
        return Ok(());
    };
    let wanted = pending.desired().tree.clone();
    let trees = TreePair {
        current: &current,
        desired: &wanted,
    };
    let request = pending
        .resolve(&held, |allocation, all| {
            driver.homes(&after, node, trees, allocation, all)
        })
        .map_err(|refused| fails(refused.to_string()))?;
    if let Some(detail) = lost(&held, &request) {
        return Err(fails(detail));
    }
    let again = driver
        .update_provider_tree(&after, request.tree(), node)
        .map_err(|error| fails(error.to_string()))?;
    let still = again.moves.iter().find(|m| {
        let inventory = request.tree().inventory(m.provider, &m.class);
        inventory.is_some_and(|inventory| !inventory.is_held())
    });
    if let Some(still) = still {
        let (class, provider) = (&still.class, still.provider);
        return Err(fails(format!(
            "{class} of {provider} moved and is still offered there"
        )));
    }
    let usages = request.afterwards(&held).usages();
    match plan(request.tree(), again, &usages) {
        Plan::ReshapeNeeded(pending) => Err(fails(format!("asked for again: {pending}"))),
        Plan::InSync { .. } | Plan::Update { .. } => Ok(()),
    }
}

/// A consumer that no driver knows.
fn orphan() -> ConsumerUuid {
    Uuid::from_bytes([0x0f; 16]).into()
}

/// The guests' allocations, and one unit of every remaining inventory for an unknown consumer.
fn allocations_of_guests(view: &HostView, node: &NodeName, tree: &ProviderTree) -> Allocations {
    let Some(seen) = view.nodes.get(node) else {
        return Allocations::none();
    };
    let holding = |resources: Resources| ConsumerAllocations {
        project_id: "conformance".to_owned(),
        user_id: "conformance".to_owned(),
        generation: None,
        resources,
    };
    let mut held: Allocations = guest_allocations(seen, node, tree)
        .into_iter()
        .filter(|(_, resources)| !resources.is_empty())
        .map(|(consumer, resources)| (consumer, holding(resources)))
        .collect();
    let used = held.usages();
    let mut left = Resources::new();
    for provider in tree.own() {
        for (class, inventory) in &provider.inventories {
            let place = (provider.uuid(), class.clone());
            let used = used.get(&place).copied().unwrap_or(0);
            if used < inventory.capacity() {
                left.insert(place, 1);
            }
        }
    }
    if !left.is_empty() {
        held.insert(orphan(), holding(left));
    }
    held
}

fn totals(held: &Allocations) -> BTreeMap<ConsumerUuid, u64> {
    held.consumers()
        .map(|(consumer, held)| (*consumer, held.resources.values().sum()))
        .collect()
}

/// The resolver guarantees this by class; this checks it by consumer.
fn lost(held: &Allocations, request: &ReshapeRequest) -> Option<String> {
    let (before, after) = (totals(held), totals(&request.afterwards(held)));
    let (consumer, _) = before
        .iter()
        .find(|(consumer, units)| after.get(consumer) != Some(units))?;
    Some(format!("consumer {consumer} holds another amount"))
}
