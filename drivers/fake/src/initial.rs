//! The state before an upgrade: a node's provider tree under the machine's model, and the allocations of its guests.
//! Pure. Tests and demos fill Placement with it, change the model in the machine file, and start the agent.

use berth_model::{
    Allocations, ConsumerAllocations, NodeName, Plan, Provider, ProviderTree, ProviderUuid,
    ResourceClass, Usages, plan,
};
use berth_virt::{NodeDisk, ProviderTreeError, Resources, guest_allocations, provider_tree};

use crate::machine::{Machine, MachineGuest, MachineNode};

/// The project that pays for the guests' allocations.
const PROJECT_ID: &str = "fake-project";
/// The user who owns the guests.
const USER_ID: &str = "fake-user";

/// The tree that a node reports under its machine's model when Placement has only its bare root.
pub fn initial_tree(
    machine: &Machine,
    node: &NodeName,
    root: ProviderUuid,
) -> Result<ProviderTree, ProviderTreeError> {
    let bare = ProviderTree::new(Provider::root(root, node.root_name().clone()));
    let desired = provider_tree(&machine.view(), &bare, node)?;
    let tree = desired.tree.clone();
    match plan(&bare, desired, &Usages::new()) {
        Plan::Update { diff, .. } => diff.apply(&bare).map_err(|source| ProviderTreeError::Tree {
            node: node.clone(),
            source,
        }),
        Plan::InSync { .. } | Plan::ReshapeNeeded(_) => Ok(tree),
    }
}

/// The allocations of a node's guests on its tree under the machine's model. They include sharing providers: if the
/// node's disk is shared, disk is allocated on the provider with DISK_GB. A migrating guest is held by the migration's
/// consumer. Returns `None` for an unknown node.
#[must_use]
pub fn initial_allocations(machine: &Machine, node: &NodeName, tree: &ProviderTree) -> Allocations {
    let Some(node) = machine.nodes.iter().find(|one| one.name == *node) else {
        return Allocations::none();
    };
    let mut claims = guest_allocations(&node.view(), &node.name, tree);
    let mut all = Allocations::none();
    for guest in &node.guests {
        let mut resources = claims.remove(&guest.uuid).unwrap_or_default();
        add_disk(node, tree, guest, &mut resources);
        for (class, amount) in &guest.customs {
            if tree.root().inventories.contains_key(class) && *amount > 0 {
                resources.insert((tree.root().uuid(), class.clone()), *amount);
            }
        }
        if !resources.is_empty() {
            let holder = guest.migration.map_or(guest.uuid, |m| m.consumer);
            all.insert(holder, to_allocations(resources));
        }
    }
    all
}

fn to_allocations(resources: Resources) -> ConsumerAllocations {
    ConsumerAllocations {
        project_id: PROJECT_ID.to_owned(),
        user_id: USER_ID.to_owned(),
        generation: None,
        resources,
    }
}

fn add_disk(
    node: &MachineNode,
    tree: &ProviderTree,
    guest: &MachineGuest,
    resources: &mut Resources,
) {
    let has_disk =
        |provider: &&Provider| provider.inventories.contains_key(&ResourceClass::DISK_GB);
    let provider = match node.disk {
        NodeDisk::Local { .. } => Some(tree.root()),
        NodeDisk::Shared => tree.sharing().into_iter().find(has_disk),
        NodeDisk::None => None,
    };
    if let Some(provider) = provider
        && guest.disk_gib > 0
    {
        let place = (provider.uuid(), ResourceClass::DISK_GB);
        resources.insert(place, guest.disk_gib);
    }
}
