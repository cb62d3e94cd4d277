//! Names of the child resource providers that the virt driver reports to Placement, in Nova's pattern.
//!
//! | child | name |
//! |---|---|
//! | a GPU with virtual GPUs (mediated devices) | `<node>_pci_0000_84_00_0` |
//! | a NUMA cell of the host | `<node>_numa0` |
//! | a model of memory encryption | `<node>_amd_sev_es` |
//!
//! The functions build these names and find three sets of children in Placement's current tree: children that the
//! driver may change, children that must be renamed, and children that lack an owner trait. Other children are
//! foreign. Providers of whole PCI devices have other names (`<node>_0000:84:00.0`); the module `devices` handles them.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    MemoryEncryption, NodeName, PciAddress, Provider, ProviderName, ProviderTree, ProviderUuid,
    Trait,
};

use super::ProviderTreeError;

/// What a child provider represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildKind {
    Gpu,
    NumaCell,
    Encryption,
}

/// The models of memory encryption whose providers nova-compute writes.
const ENCRYPTION: [&str; 4] = ["amd_sev", "amd_sev_es", "amd_sev_snp", "intel_tdx"];

/// The trait of a provider of a whole PCI device, set by Nova's PCI tracker and by the module `devices`.
pub(crate) const PCI_TRACKER_TRAIT: Trait = Trait::known("COMPUTE_MANAGED_PCI_DEVICE");

/// The name of the provider of a NUMA cell: `<node>_numa<id>`.
pub(crate) fn cell_name(node: &NodeName, cell: u32) -> Result<ProviderName, ProviderTreeError> {
    child_name(node, &format!("numa{cell}"))
}

/// The name of the provider of a model of memory encryption: `<node>_amd_sev`.
pub(crate) fn encryption_name(
    node: &NodeName,
    model: MemoryEncryption,
) -> Result<ProviderName, ProviderTreeError> {
    child_name(node, &model.as_str().replace('-', "_"))
}

/// The name `<node>_<suffix>`. Fails if it is too long for Placement.
pub(crate) fn child_name(node: &NodeName, suffix: &str) -> Result<ProviderName, ProviderTreeError> {
    node.child_name(suffix)
        .map_err(|source| ProviderTreeError::Name {
            node: node.clone(),
            source,
        })
}

/// What the name of a child represents; `None` if it does not have the pattern for this node.
pub(crate) fn child_kind(node: &NodeName, name: &ProviderName) -> Option<ChildKind> {
    let suffix = name.as_str().strip_prefix(node.as_str())?;
    kind_of_suffix(suffix.strip_prefix('_')?)
}

fn kind_of_suffix(suffix: &str) -> Option<ChildKind> {
    if PciAddress::from_nodedev_name(suffix).is_ok() {
        return Some(ChildKind::Gpu);
    }
    if ENCRYPTION.contains(&suffix) {
        return Some(ChildKind::Encryption);
    }
    let cell = suffix.strip_prefix("numa")?;
    let is_number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(ChildKind::NumaCell)
}

/// Whether the driver may change or delete a provider: nova-compute or Berth created it, and its name has one of the
/// patterns above. A child with [`PCI_TRACKER_TRAIT`] is a PCI device, even if an operator gave it such a name.
pub(crate) fn is_driver_child(
    current: &ProviderTree,
    node: &NodeName,
    provider: &Provider,
) -> bool {
    provider.uuid() != current.root().uuid()
        && is_written_by_compute(current, provider)
        && child_kind(node, &provider.name).is_some()
        && !provider.traits.contains(&PCI_TRACKER_TRAIT)
}

/// Whether nova-compute or Berth writes the provider ([`ProviderTree::is_ours`]): its UUID is the one that Berth
/// derives from its name, or it has the owner trait of Nova or Berth. A provider of Cyborg's counts only if Berth
/// writes it.
fn is_written_by_compute(current: &ProviderTree, provider: &Provider) -> bool {
    current.is_ours(provider.uuid())
}

/// Whether a trait shows that the child is a whole PCI device or belongs to Cyborg.
fn is_foreign(child: &Provider) -> bool {
    let traits = [PCI_TRACKER_TRAIT, Trait::OWNER_CYBORG];
    traits.iter().any(|owner| child.traits.contains(owner))
}

/// The children with a wrong name, and the correct name of each. `wanted` are the names that the driver reports.
///
/// After an interrupted rename of the host, a child can have the prefix of an earlier host name. An operator may also have
/// renamed it. Fails if two children represent one GPU or cell, or if a correct name is too long.
pub(super) fn children_to_rename<'a>(
    current: &ProviderTree,
    node: &NodeName,
    wanted: impl Iterator<Item = &'a ProviderName>,
) -> Result<BTreeMap<ProviderUuid, ProviderName>, ProviderTreeError> {
    let root = current.root().uuid();
    // Berth derives the UUID of a child from its first name. The UUID stays when the name changes.
    let wanted_by_uuid: BTreeMap<_, _> = wanted.map(|name| (root.child(name), name)).collect();
    let mut renames = BTreeMap::new();
    for child in current.own() {
        if child.uuid() == root || is_foreign(child) {
            continue;
        }
        let correct_name = match wanted_by_uuid.get(&child.uuid()) {
            Some(name) => Some((*name).clone()),
            None => name_for_this_node(current, node, child)?,
        };
        if let Some(name) = correct_name {
            add_rename(&mut renames, current, node, child, &name)?;
        }
    }
    Ok(renames)
}

/// The name that a child must get: its suffix with the prefix of this node. `None` if it has that prefix already, or if
/// nova-compute or Berth did not create the child.
fn name_for_this_node(
    current: &ProviderTree,
    node: &NodeName,
    child: &Provider,
) -> Result<Option<ProviderName>, ProviderTreeError> {
    let is_correct = child_kind(node, &child.name).is_some();
    if is_correct || !is_written_by_compute(current, child) {
        return Ok(None);
    }
    let suffix = suffix_of(&child.name);
    suffix.map(|suffix| child_name(node, suffix)).transpose()
}

/// The part of a name after `<node>_`, for any node; `None` if the name does not have the pattern.
fn suffix_of(name: &ProviderName) -> Option<&str> {
    let name = name.as_str();
    let starts = ["_pci_", "_numa", "_amd_sev", "_intel_tdx"].into_iter();
    let mut suffixes = starts.filter_map(|start| name.get(name.rfind(start)? + 1..));
    suffixes.find(|suffix| kind_of_suffix(suffix).is_some())
}

/// Adds "rename `child` to `name`" to `renames`; adds nothing if the child already has the name. Fails if another child
/// has the name, or is to be renamed to it.
pub(super) fn add_rename(
    renames: &mut BTreeMap<ProviderUuid, ProviderName>,
    current: &ProviderTree,
    node: &NodeName,
    child: &Provider,
    name: &ProviderName,
) -> Result<(), ProviderTreeError> {
    if child.name == *name {
        return Ok(());
    }
    let present = current.by_name(name).map(Provider::uuid);
    let mut renamed = renames.iter().filter(|(_, new_name)| *new_name == name);
    if let Some(other) = present.or_else(|| renamed.next().map(|(uuid, _)| *uuid)) {
        return Err(ProviderTreeError::DuplicateChild {
            node: node.clone(),
            name: name.clone(),
            uuid: child.uuid(),
            present_name: child.name.clone(),
            other,
        });
    }
    renames.insert(child.uuid(), name.clone());
    Ok(())
}

/// The children with a name of the pattern but without an owner trait, and the trait that each must get. A nova-compute
/// before 34.0.0 sets no owner trait. Berth sets the same trait as later releases: OWNER_NOVA.
pub(super) fn missing_owner_traits(
    current: &ProviderTree,
    node: &NodeName,
) -> BTreeMap<ProviderUuid, BTreeSet<Trait>> {
    let lacks_owner = |child: &&Provider| {
        child_kind(node, &child.name).is_some()
            && !is_written_by_compute(current, child)
            && !is_foreign(child)
    };
    let children = current.children(current.root().uuid()).into_iter();
    children
        .filter(lacks_owner)
        .map(|child| (child.uuid(), BTreeSet::from([Trait::OWNER_NOVA])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_of_a_name_is_found_after_any_node_name() {
        for (name, suffix) in [
            ("gpu-02_pci_0000_84_00_0", Some("pci_0000_84_00_0")),
            ("a_pci_b_pci_0000_84_00_0", Some("pci_0000_84_00_0")),
            ("a_numa_b_numa1", Some("numa1")),
            ("gpu-02_amd_sev_es", Some("amd_sev_es")),
            ("gpu-02_amd_sev_2", None),
            ("gpu-02_numa1x", None),
            ("gpu-02_0000:84:00.0", None),
            ("gpu-02", None),
        ] {
            let name = ProviderName::new(name).unwrap();
            assert_eq!(suffix_of(&name), suffix, "{name}");
        }
    }

    #[test]
    fn the_name_of_a_child_of_this_node_tells_its_kind() {
        let node = NodeName::new("gpu-01").unwrap();
        for (name, kind) in [
            ("gpu-01_pci_0000_84_00_0", Some(ChildKind::Gpu)),
            ("gpu-01_numa0", Some(ChildKind::NumaCell)),
            ("gpu-01_amd_sev", Some(ChildKind::Encryption)),
            ("gpu-01_intel_tdx", Some(ChildKind::Encryption)),
            ("gpu-01_numa12", Some(ChildKind::NumaCell)),
            ("gpu-01_numa", None),
            ("gpu-01_numa_1", None),
            ("gpu-01_0000:84:00.0", None),
            ("gpu-01", None),
            ("gpu-010_numa0", None),
            ("gpu-02_numa0", None),
        ] {
            let name = ProviderName::new(name).unwrap();
            assert_eq!(child_kind(&node, &name), kind, "{name}");
        }
    }
}
