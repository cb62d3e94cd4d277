//! Takeover of providers that Cyborg created: finds a device's provider, and decides what stays of it when Berth writes
//! it.
//!
//! Cyborg names a provider after its option `host`; some of its drivers use `gethostname`. The root provider may have
//! yet another name: libvirt's name of the host, usually with its domain. So a provider is recognised by the address in
//! its name and by its UUID, which Cyborg derives from that name; the part before the address may be anything.
//!
//! Cyborg's PCI driver gives every device CUSTOM_PCI and traits with this prefix. Cyborg's device profiles request
//! these, so a provider that has them keeps them unless `resource_class` of `[accelerators] device_spec` is set.
//!
//! Used by the provider tree, and by the agent for its reports to the accelerator service and when it builds guests.

use berth_model::{
    NodeName, PciAddress, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
};

use crate::provider_tree::{PCI_TRACKER_TRAIT, device_children};
use crate::{
    ClassOrigin, DeviceOwner, DeviceType, DeviceUnit, NodeView, OfferedDevice, OfferedHandle,
};

/// The prefix of the traits of Cyborg's PCI driver.
const OF_CYBORGS_PCI_DRIVER: &str = "CUSTOM_PCI_";

/// The address that a child's name ends with, in Nova's or Cyborg's manner.
pub(crate) fn address_in(name: &ProviderName) -> Option<PciAddress> {
    let (_, end) = name.as_str().rsplit_once('_')?;
    let address: PciAddress = end.parse().ok()?;
    let is_whole = address.to_string().eq_ignore_ascii_case(end);
    is_whole.then_some(address)
}

/// The ID of the Fabric Manager partition that a child's name ends with.
pub(crate) fn partition_in(name: &ProviderName) -> Option<u32> {
    let (_, end) = name.as_str().rsplit_once("_fabric_")?;
    let id: u32 = end.parse().ok()?;
    (id.to_string() == end).then_some(id)
}

/// The address of the device that a child stands for, if Cyborg (or Berth in its place) gave the child
/// its name and UUID.
pub(crate) fn cyborgs_address(child: &Provider) -> Option<PciAddress> {
    let is_deployable = child.uuid() == ProviderUuid::of_deployable(&child.name);
    let is_novas = child.traits.contains(&PCI_TRACKER_TRAIT);
    address_in(&child.name).filter(|_| is_deployable && !is_novas)
}

impl OfferedDevice {
    /// The device's provider in its node's tree: the provider with its name, or a provider that Cyborg created
    /// under another host name.
    #[must_use]
    pub fn provider_in<'a>(&self, node: &NodeName, tree: &'a ProviderTree) -> Option<&'a Provider> {
        let named = tree.by_name(&self.provider_name(node));
        named
            .filter(|provider| tree.is_own(provider.uuid()))
            .or_else(|| self.cyborgs_provider(tree))
    }

    /// The addresses with which Cyborg's name for the provider may end: its own, or that of any function if all
    /// functions are units of one provider, because Cyborg uses the last one it found.
    pub(crate) fn cyborgs_addresses(&self) -> impl Iterator<Item = PciAddress> {
        let are_units = self.owner == DeviceOwner::Accelerator && self.unit == DeviceUnit::Handle;
        let functions = self.handles.iter().filter_map(move |handle| match handle {
            OfferedHandle::Function(function) if are_units => Some(*function),
            OfferedHandle::Function(_) | OfferedHandle::Mdev { .. } => None,
        });
        // A partition's provider is named after its ID. A provider with the address of one of its GPUs is another one.
        let is_partition = matches!(self.unit, DeviceUnit::Partition(_));
        let own = (!is_partition).then_some(self.address);
        own.into_iter().chain(functions)
    }

    fn cyborgs_provider<'a>(&self, tree: &'a ProviderTree) -> Option<&'a Provider> {
        if self.owner != DeviceOwner::Accelerator {
            return None;
        }
        let is_its = |address| self.cyborgs_addresses().any(|own| own == address);
        let mut children = device_children(tree).into_iter();
        children.find(|child| cyborgs_address(child).is_some_and(is_its))
    }

    /// Whether its provider in this tree has the class of Cyborg's PCI driver and keeps it.
    fn retains_cyborg_class(&self, provider: &Provider) -> bool {
        let class = DeviceType::Pci.resource_class();
        let has_only = provider.inventories.keys().eq([&class]);
        let is_whole = |handle: &OfferedHandle| matches!(handle, OfferedHandle::Function(_));
        has_only
            && self.owner == DeviceOwner::Accelerator
            && self.class_origin == ClassOrigin::Default
            && self.class != class
            && self.handles.iter().all(is_whole)
    }

    /// The class on its provider: its own, or Cyborg's if the provider keeps that.
    #[must_use]
    pub(crate) fn class_on(&self, provider: &Provider) -> ResourceClass {
        match self.retains_cyborg_class(provider) {
            true => DeviceType::Pci.resource_class(),
            false => self.class.clone(),
        }
    }

    /// Adopts what its provider in this tree keeps of Cyborg's; returns whether it does.
    pub fn retain_cyborg_providers(&mut self, node: &NodeName, tree: &ProviderTree) -> bool {
        let Some(provider) = self.provider_in(node, tree) else {
            return false;
        };
        if !self.retains_cyborg_class(provider) {
            return false;
        }
        let traits = provider.traits.iter();
        let kept = traits.filter(|held| held.as_str().starts_with(OF_CYBORGS_PCI_DRIVER));
        self.traits.extend(kept.cloned());
        self.class = DeviceType::Pci.resource_class();
        true
    }
}

impl NodeView {
    /// The node with its devices as their providers in this tree keep them; `None` if nothing is kept.
    #[must_use]
    pub(crate) fn with_cyborg_providers(
        &self,
        node: &NodeName,
        tree: &ProviderTree,
    ) -> Option<Self> {
        let keeps = |device: &OfferedDevice| {
            let provider = device.provider_in(node, tree);
            provider.is_some_and(|provider| device.retains_cyborg_class(provider))
        };
        if !self.devices.iter().any(keeps) {
            return None;
        }
        let mut kept = self.clone();
        for device in &mut kept.devices {
            device.retain_cyborg_providers(node, tree);
        }
        Some(kept)
    }
}
