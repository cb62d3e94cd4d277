//! The providers of link groups: a level between the root and the devices that a fast link connects. Pure.
//!
//! A device keeps its provider, with its UUID and its allocations, when it enters or leaves a group: only the parent changes. So a
//! group is introduced under running guests, and each state in between is valid.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    LinkGroupName, NodeName, Provider, ProviderName, ProviderTree, ProviderUuid, Trait,
};

use super::ProviderTreeError;
use super::names::add_rename;
use crate::OfferedDevice;

/// The link group that a child's name ends with.
fn link_group_in(name: &ProviderName) -> Option<LinkGroupName> {
    let (_, end) = name.as_str().rsplit_once("_link-")?;
    LinkGroupName::new(end).ok()
}

/// Whether a provider stands for a link group and Berth writes it. The trait is written after the name, so either shows it.
fn is_link_group(tree: &ProviderTree, provider: &Provider) -> bool {
    let is_marked = || provider.traits.contains(&Trait::CUSTOM_LINK_GROUP);
    provider.parent() == Some(tree.root().uuid())
        && tree.is_ours(provider.uuid())
        && (link_group_in(&provider.name).is_some() || is_marked())
}

/// Whether providers of devices can be below this one: the root and the link groups.
pub(super) fn has_devices(tree: &ProviderTree, parent: ProviderUuid) -> bool {
    let provider = tree.get(parent);
    parent == tree.root().uuid() || provider.is_some_and(|it| is_link_group(tree, it))
}

/// The providers that can stand for devices: the children of the root and of the link groups.
pub(crate) fn device_children(tree: &ProviderTree) -> Vec<&Provider> {
    let children = tree.children(tree.root().uuid());
    let groups: Vec<_> = link_groups(tree).collect();
    let below = groups.iter().flat_map(|group| tree.children(group.uuid()));
    children.into_iter().chain(below).collect()
}

/// The providers of link groups.
pub(super) fn link_groups(tree: &ProviderTree) -> impl Iterator<Item = &Provider> {
    let children = tree.children(tree.root().uuid()).into_iter();
    children.filter(|child| is_link_group(tree, child))
}

/// The names of the providers of the devices' link groups.
pub(super) fn wanted<'a>(
    node: &NodeName,
    devices: impl IntoIterator<Item = &'a OfferedDevice>,
) -> BTreeSet<ProviderName> {
    let groups = devices
        .into_iter()
        .filter_map(|device| device.link_group.as_ref());
    groups.map(|group| node.link_group_name(group)).collect()
}

/// The providers of wanted link groups with a wrong name, and the correct name of each. Fails if two represent one group.
pub(super) fn children_to_rename(
    current: &ProviderTree,
    node: &NodeName,
    wanted: &BTreeSet<ProviderName>,
) -> Result<BTreeMap<ProviderUuid, ProviderName>, ProviderTreeError> {
    let root = current.root().uuid();
    let mut renames = BTreeMap::new();
    for group in link_groups(current) {
        let is_its = |name: &&ProviderName| {
            let same = || link_group_in(name) == link_group_in(&group.name);
            root.child(name) == group.uuid() || same()
        };
        if let Some(name) = wanted.iter().find(is_its) {
            add_rename(&mut renames, current, node, group, name)?;
        }
    }
    Ok(renames)
}
