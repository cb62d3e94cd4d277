//! Devices whose providers Cyborg made: which provider is a device's, and what of it stays when Berth writes it.
//!
//! Cyborg names a provider by its option `host`, some of its drivers by what `gethostname` answers. The root provider may have
//! another name: libvirt's of the host, with its domain mostly. So a provider is known by the address in its name and by its
//! UUID, which Cyborg makes of that name; the name before the address may be any.
//!
//! Cyborg's PCI driver gives every device CUSTOM_PCI and traits that begin so, whatever the device is. Its device profiles ask
//! for these: a provider that has them keeps them, until `resource_class` of `[accelerators] device_spec` says otherwise.
//!
//! Callers: the provider tree; the agent, for what it tells the accelerator service and where it builds guests.

use berth_model::{
    NodeName, PciAddress, Provider, ProviderName, ProviderTree, ProviderUuid, ResourceClass,
};

use crate::provider_tree::PCI_TRACKERS;
use crate::{
    ClassOrigin, DeviceOwner, DeviceType, DeviceUnit, NodeView, OfferedDevice, OfferedHandle,
};

/// What traits of Cyborg's PCI driver begin with.
const OF_CYBORGS_PCI_DRIVER: &str = "CUSTOM_PCI_";

/// The address that a child's name ends with, in Nova's or Cyborg's manner.
pub(crate) fn address_in(name: &ProviderName) -> Option<PciAddress> {
    let (_, end) = name.as_str().rsplit_once('_')?;
    let address: PciAddress = end.parse().ok()?;
    let is_whole = address.to_string().eq_ignore_ascii_case(end);
    is_whole.then_some(address)
}

/// The address of the device that a child stands for which has its name and its UUID from Cyborg, or from Berth in its place.
pub(crate) fn cyborgs_address(child: &Provider) -> Option<PciAddress> {
    let is_deployable = child.uuid() == ProviderUuid::of_deployable(&child.name);
    let is_novas = child.traits.contains(&PCI_TRACKERS);
    address_in(&child.name).filter(|_| is_deployable && !is_novas)
}

impl OfferedDevice {
    /// Its provider in its node's tree: the one of its name, or the one that Cyborg made of it under another name of the host.
    #[must_use]
    pub fn provider_in<'a>(&self, node: &NodeName, tree: &'a ProviderTree) -> Option<&'a Provider> {
        let named = tree.by_name(&self.provider_name(node));
        named
            .filter(|provider| tree.is_own(provider.uuid()))
            .or_else(|| self.cyborgs_provider(tree))
    }

    /// The addresses one of which Cyborg's name for its provider ends with: its own, or where its functions are units of one
    /// provider, that of any: Cyborg takes the one that it found last.
    pub(crate) fn cyborgs_addresses(&self) -> impl Iterator<Item = PciAddress> {
        let are_units = self.owner == DeviceOwner::Accelerator && self.unit == DeviceUnit::Handle;
        let functions = self.handles.iter().filter_map(move |handle| match handle {
            OfferedHandle::Function(function) if are_units => Some(*function),
            OfferedHandle::Function(_) | OfferedHandle::Mdev { .. } => None,
        });
        [self.address].into_iter().chain(functions)
    }

    fn cyborgs_provider<'a>(&self, tree: &'a ProviderTree) -> Option<&'a Provider> {
        if self.owner != DeviceOwner::Accelerator {
            return None;
        }
        let is_its = |address| self.cyborgs_addresses().any(|own| own == address);
        let mut children = tree.children(tree.root().uuid()).into_iter();
        children.find(|child| cyborgs_address(child).is_some_and(is_its))
    }

    /// Whether its provider in this tree has the class of Cyborg's PCI driver and is to keep it.
    fn keeps_cyborgs_class(&self, provider: &Provider) -> bool {
        let class = DeviceType::Pci.resource_class();
        let has_only = provider.inventories.keys().eq([&class]);
        let is_whole = |handle: &OfferedHandle| matches!(handle, OfferedHandle::Function(_));
        has_only
            && self.owner == DeviceOwner::Accelerator
            && self.class_origin == ClassOrigin::Usual
            && self.class != class
            && self.handles.iter().all(is_whole)
    }

    /// The class that it has on its provider: its own, or Cyborg's that the provider keeps.
    #[must_use]
    pub(crate) fn class_on(&self, provider: &Provider) -> ResourceClass {
        match self.keeps_cyborgs_class(provider) {
            true => DeviceType::Pci.resource_class(),
            false => self.class.clone(),
        }
    }

    /// Takes on what its provider in this tree keeps of Cyborg's; whether it does.
    pub fn keep_cyborgs(&mut self, node: &NodeName, tree: &ProviderTree) -> bool {
        let Some(provider) = self.provider_in(node, tree) else {
            return false;
        };
        if !self.keeps_cyborgs_class(provider) {
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
    /// The node with its devices as their providers in this tree keep them; none where none keeps anything.
    #[must_use]
    pub(crate) fn keeping_cyborgs(&self, node: &NodeName, tree: &ProviderTree) -> Option<Self> {
        let keeps = |device: &OfferedDevice| {
            let provider = device.provider_in(node, tree);
            provider.is_some_and(|provider| device.keeps_cyborgs_class(provider))
        };
        if !self.devices.iter().any(keeps) {
            return None;
        }
        let mut kept = self.clone();
        for device in &mut kept.devices {
            device.keep_cyborgs(node, tree);
        }
        Some(kept)
    }
}
