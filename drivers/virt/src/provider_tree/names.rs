//! Names of child providers, in Nova's pattern `<node>_<device>`.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    NodeName, PciAddress, Provider, ProviderName, ProviderTree, ProviderUuid, Trait,
};

use super::ProviderTreeError;

/// What a child provider named by this driver stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedFor {
    /// A PCI device: `<node>_pci_0000_84_00_0`.
    Device,
    /// A NUMA cell: `<node>_numa0`.
    Cell,
}

/// What a child stands for according to its name; `None` for foreign names.
pub(crate) fn named_for(node: &NodeName, name: &ProviderName) -> Option<NamedFor> {
    let suffix = name.as_str().strip_prefix(node.as_str())?;
    stands_for(suffix.strip_prefix('_')?)
}

/// What the part of a name after the node's name stands for.
fn stands_for(suffix: &str) -> Option<NamedFor> {
    if PciAddress::from_nodedev_name(suffix).is_ok() {
        return Some(NamedFor::Device);
    }
    let cell = suffix.strip_prefix("numa")?;
    let is_number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(NamedFor::Cell)
}

/// Whether this driver may delete a child of the current tree: it belongs to the compute service and has a name of this
/// driver's pattern. Other children of the compute service (its PCI devices) are foreign here.
pub(crate) fn is_the_drivers(current: &ProviderTree, node: &NodeName, provider: &Provider) -> bool {
    provider.uuid() != current.root().uuid()
        && current.is_ours(provider.uuid())
        && named_for(node, &provider.name).is_some()
        && !provider.traits.contains(&PCI_TRACKERS)
}

/// The suffix of a name of the pattern, with any node's name.
fn suffix_under_any_node(name: &ProviderName) -> Option<&str> {
    let name = name.as_str();
    let ends = ["_pci_", "_numa"].into_iter();
    let mut ends = ends.filter_map(|mark| name.get(name.rfind(mark)? + 1..));
    ends.find(|end| stands_for(end).is_some())
}

/// The children of the compute service with a wrong name, with the right one. An interrupted rename of the host leaves
/// the old or another new name before the suffix; an operator may set any name. A wanted child is recognised by its
/// UUID, others by the suffix. Fails if two children stand for the same device or cell, or a name is too long.
pub(super) fn misnamed<'a>(
    current: &ProviderTree,
    node: &NodeName,
    wanted: impl Iterator<Item = &'a ProviderName>,
) -> Result<BTreeMap<ProviderUuid, ProviderName>, ProviderTreeError> {
    let root = current.root().uuid();
    let by_uuid: BTreeMap<_, _> = wanted.map(|name| (root.child(name), name)).collect();
    let mut found: BTreeMap<ProviderUuid, ProviderName> = BTreeMap::new();
    for child in current.own() {
        let theirs = [PCI_TRACKERS, Trait::OWNER_CYBORG];
        if child.uuid() == root || theirs.iter().any(|mark| child.traits.contains(mark)) {
            continue;
        }
        let name = match by_uuid.get(&child.uuid()) {
            Some(name) => (*name).clone(),
            None if !current.is_ours(child.uuid()) || named_for(node, &child.name).is_some() => {
                continue;
            }
            None => match suffix_under_any_node(&child.name) {
                Some(suffix) => child_name(node, suffix)?,
                None => continue,
            },
        };
        if name == child.name {
            continue;
        }
        let there = current.by_name(&name).map(Provider::uuid);
        let named_so = found.iter().find(|(_, taken)| **taken == name);
        if let Some(other) = there.or(named_so.map(|(uuid, _)| *uuid)) {
            return Err(ProviderTreeError::Twice {
                node: node.clone(),
                name,
                uuid: child.uuid(),
                misnamed: child.name.clone(),
                other,
            });
        }
        found.insert(child.uuid(), name);
    }
    Ok(found)
}

/// Children of the root with a name of this driver's pattern and without an owner mark, with the mark to set.
pub(super) fn unmarked(
    current: &ProviderTree,
    node: &NodeName,
) -> BTreeMap<ProviderUuid, BTreeSet<Trait>> {
    let is_unmarked = |child: &&Provider| {
        !current.is_ours(child.uuid())
            && named_for(node, &child.name).is_some()
            && ![PCI_TRACKERS, Trait::OWNER_CYBORG]
                .iter()
                .any(|theirs| child.traits.contains(theirs))
    };
    let children = current.children(current.root().uuid()).into_iter();
    children
        .filter(is_unmarked)
        .map(|child| (child.uuid(), BTreeSet::from([Trait::OWNER_NOVA])))
        .collect()
}

/// The mark of Nova's PCI tracker. Its providers have other names (upper-case addresses), but a name proves nothing.
pub(crate) const PCI_TRACKERS: Trait = Trait::known("COMPUTE_MANAGED_PCI_DEVICE");

/// The name of a cell's provider: `<node>_numa<id>`.
pub(crate) fn cell_name(node: &NodeName, cell: u32) -> Result<ProviderName, ProviderTreeError> {
    child_name(node, &format!("numa{cell}"))
}

/// The name of a child provider of this node.
pub(crate) fn child_name(node: &NodeName, suffix: &str) -> Result<ProviderName, ProviderTreeError> {
    node.child_name(suffix)
        .map_err(|source| ProviderTreeError::Name {
            node: node.clone(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_of_a_name_is_found_behind_any_node_s() {
        for (name, suffix) in [
            ("gpu-02_pci_0000_84_00_0", Some("pci_0000_84_00_0")),
            ("a_pci_b_pci_0000_84_00_0", Some("pci_0000_84_00_0")),
            ("a_numa_b_numa1", Some("numa1")),
            ("gpu-02_numa1x", None),
            ("gpu-02_0000:84:00.0", None),
            ("gpu-02", None),
        ] {
            let name = ProviderName::new(name).unwrap();
            assert_eq!(suffix_under_any_node(&name), suffix, "{name}");
        }
    }

    #[test]
    fn only_names_of_the_drivers_pattern_are_its_own() {
        let node = NodeName::new("gpu-01").unwrap();
        for (name, stands_for) in [
            ("gpu-01_pci_0000_84_00_0", Some(NamedFor::Device)),
            ("gpu-01_numa0", Some(NamedFor::Cell)),
            ("gpu-01_numa12", Some(NamedFor::Cell)),
            ("gpu-01_numa", None),
            ("gpu-01_numa_1", None),
            ("gpu-01_0000:84:00.0", None),
            ("gpu-01", None),
            ("gpu-010_numa0", None),
            ("gpu-02_numa0", None),
        ] {
            let name = ProviderName::new(name).unwrap();
            assert_eq!(named_for(&node, &name), stands_for, "{name}");
        }
    }
}
