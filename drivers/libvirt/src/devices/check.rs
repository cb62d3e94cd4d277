//! Read-only checks whether a device may be given to a guest.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use berth_sysfs::{
    AllowedFunction, ConfigSpace, GroupError, MdevDevice, Sriov, VFIO_DRIVER, ViableGroup,
};
use berth_virt::guest_spec::HostPciPlace;
use berth_virt::{DeviceError, HostDeviceId, MdevSource, UnfitReason, WantedDevice};
use uuid::Uuid;

use super::{DeviceHandling, HostDevices, ReadyDriver, unreadable};

impl HostDevices {
    /// Checks whether the device may be given to a guest now. Returns the devices that would go with it: no other guest
    /// may have any of them.
    pub(crate) fn check(&self, wanted: &WantedDevice) -> Result<BTreeSet<PciAddress>, DeviceError> {
        let device = wanted.host_device();
        match self.handling_of(wanted)? {
            DeviceHandling::Managed(address) => {
                let (allowed, group) = self.function(device, address)?;
                self.check_companions(device, &allowed, &group)
            }
            DeviceHandling::InPlace(address, stand) => {
                let (allowed, group) = self.function(device, address)?;
                self.check_ready_driver(device, &allowed, stand)?;
                self.check_companions(device, &allowed, &group)
            }
            DeviceHandling::OnHostDriver(address) => {
                let allowed = self.allowed(device, address)?;
                self.is_not_the_hosts(device, address)?;
                self.answers(device, &allowed)?;
                self.link_of(address)?;
                Ok(BTreeSet::new())
            }
            DeviceHandling::Made(uuid, source) => {
                self.mdev_source(device, uuid, source)?;
                Ok(BTreeSet::new())
            }
            DeviceHandling::Found(uuid) => {
                let found = self.find_mdev(device, uuid)?;
                self.mdev_parent_allowed(device, &found.parent, &found.type_id)?;
                Ok(BTreeSet::new())
            }
        }
    }

    /// The place of a device in the host's PCI tree.
    pub(crate) fn pci_place(&self, wanted: &WantedDevice) -> Result<HostPciPlace, DeviceError> {
        let device = wanted.host_device();
        let address = match (wanted.function(), device) {
            (Some(address), _) | (None, HostDeviceId::Function(address)) => address,
            (None, HostDeviceId::Mdev(uuid)) => {
                let parent = self.find_mdev(device, uuid)?.parent;
                match parent.parse() {
                    Ok(address) => address,
                    // A parent that is not a PCI device has no place.
                    Err(_) => return Ok(HostPciPlace::default()),
                }
            }
        };
        let function = self.sysfs().pci_function(address);
        let function = function.map_err(unreadable(device))?;
        let function = function.ok_or_else(|| DeviceError::Missing {
            device,
            reason: format!("this host has no PCI function {address}"),
        })?;
        let switch = self.sysfs().pci_switch(address);
        Ok(HostPciPlace {
            numa_node: function.numa_node,
            switch: switch.map_err(unreadable(device))?,
        })
    }

    /// A function that may be given to a guest, with its IOMMU group.
    pub(super) fn function(
        &self,
        device: HostDeviceId,
        address: PciAddress,
    ) -> Result<(AllowedFunction, ViableGroup), DeviceError> {
        let allowed = self.allowed(device, address)?;
        self.is_not_the_hosts(device, address)?;
        if let Sriov::Physical { enabled, .. } = &allowed.function().sriov
            && *enabled > 0
        {
            let reason = format!(
                "it has {enabled} virtual functions, which would be removed with it (sriov_numvfs)"
            );
            return Err(DeviceError::InUse { device, reason });
        }
        self.answers(device, &allowed)?;
        match self.sysfs().viable_group(&allowed, &self.list) {
            Ok(group) => Ok((allowed, group)),
            Err(GroupError::Sysfs(error)) => Err(unreadable(device)(error)),
            Err(error) => Err(DeviceError::GroupNotViable {
                device,
                reason: error.to_string(),
            }),
        }
    }

    pub(super) fn is_not_the_hosts(
        &self,
        device: HostDeviceId,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let used = self
            .sysfs()
            .host_use(address, &self.procfs)
            .map_err(unreadable(device))?;
        match used {
            None => Ok(()),
            Some(used) if device == HostDeviceId::Function(address) => {
                Err(DeviceError::InUseByHost {
                    device,
                    reason: used.to_string(),
                })
            }
            Some(used) => Err(DeviceError::InUseByHost {
                device,
                reason: format!("it goes with PCI function {address}, and {used}"),
            }),
        }
    }

    fn answers(&self, device: HostDeviceId, allowed: &AllowedFunction) -> Result<(), DeviceError> {
        let function = allowed.function();
        let space = self
            .sysfs()
            .config_space(allowed.address())
            .map_err(unreadable(device))?;
        if space.answers_as(function.vendor, function.device) {
            return Ok(());
        }
        let (cause, reason) = match space {
            ConfigSpace::NotThere => (UnfitReason::Vanished, "it is gone".to_owned()),
            ConfigSpace::AllOnes => (
                UnfitReason::ConfigSpace,
                "its configuration space is all ones; switch the host off and on".to_owned(),
            ),
            ConfigSpace::Answers { vendor, device } => (
                UnfitReason::ConfigSpace,
                format!(
                    "it answers as {vendor:04x}:{device:04x} instead of {:04x}:{:04x}",
                    function.vendor, function.device
                ),
            ),
        };
        Err(DeviceError::Quarantined {
            device,
            cause,
            reason,
        })
    }

    /// A mediated device that can be created, or exists as required.
    fn mdev_source(
        &self,
        device: HostDeviceId,
        uuid: Uuid,
        source: &MdevSource,
    ) -> Result<(), DeviceError> {
        let parent = source.parent.to_string();
        self.mdev_parent_allowed(device, &parent, &source.mdev_type)?;
        let missing = |reason: String| DeviceError::Missing { device, reason };
        if let Some(found) = self.mdev(device, uuid)? {
            if found.parent == parent && found.type_id == source.mdev_type {
                return Ok(());
            }
            let reason = format!(
                "it exists as {} of {} instead of {} of {parent}",
                found.type_id, found.parent, source.mdev_type
            );
            return Err(missing(reason));
        }
        let parents = self.sysfs().mdev_parents().map_err(unreadable(device))?;
        let Some(known) = parents.iter().find(|known| known.name == parent) else {
            return Err(missing(format!(
                "PCI function {parent} offers no mediated devices; is its vendor's driver loaded?"
            )));
        };
        let Some(kind) = known.types.iter().find(|kind| kind.id == source.mdev_type) else {
            let offered: Vec<_> = known.types.iter().map(|kind| kind.id.as_str()).collect();
            return Err(missing(format!(
                "PCI function {parent} offers no type {}, only {}",
                source.mdev_type,
                offered.join(", ")
            )));
        };
        if kind.available_instances == 0 {
            let reason = format!(
                "PCI function {parent} has no {} left (available_instances is 0)",
                kind.id
            );
            return Err(DeviceError::InUse { device, reason });
        }
        Ok(())
    }

    /// A parent that allows mediated devices of this type: one configured for flavors, or one in a list.
    fn mdev_parent_allowed(
        &self,
        device: HostDeviceId,
        parent: &str,
        type_id: &str,
    ) -> Result<(), DeviceError> {
        let not_allowed = |reason: String| DeviceError::NotAllowed { device, reason };
        let Ok(address) = parent.parse::<PciAddress>() else {
            return Err(not_allowed(format!(
                "its parent {parent} is not a PCI function"
            )));
        };
        let for_flavors = self.mdev_types.of(address);
        if for_flavors.is_none_or(|enabled| enabled.id != type_id) {
            self.allowed(device, address).map_err(|error| match error {
                DeviceError::NotAllowed { reason, .. } => not_allowed(format!(
                    "{type_id} is not an enabled mdev type of its parent, and {reason}"
                )),
                other => other,
            })?;
        }
        let Some(function) = self
            .sysfs()
            .pci_function(address)
            .map_err(unreadable(device))?
        else {
            let reason = format!("its parent, PCI function {parent}, is gone");
            return Err(DeviceError::Missing { device, reason });
        };
        let space = self
            .sysfs()
            .config_space(address)
            .map_err(unreadable(device))?;
        match space {
            space if space.answers_as(function.vendor, function.device) => Ok(()),
            _ => Err(DeviceError::Quarantined {
                device,
                cause: UnfitReason::ConfigSpace,
                reason: format!("its parent, PCI function {parent}, does not answer as it should"),
            }),
        }
    }

    pub(super) fn mdev(
        &self,
        device: HostDeviceId,
        uuid: Uuid,
    ) -> Result<Option<MdevDevice>, DeviceError> {
        let all = self.sysfs().mdev_devices().map_err(unreadable(device))?;
        Ok(all.into_iter().find(|mdev| mdev.uuid == uuid))
    }

    fn find_mdev(&self, device: HostDeviceId, uuid: Uuid) -> Result<MdevDevice, DeviceError> {
        let reason =
            "it does not exist, and its parent and type are unknown, so it cannot be created"
                .to_owned();
        self.mdev(device, uuid)?
            .ok_or(DeviceError::Missing { device, reason })
    }

    /// A function that stays on its driver must be on a driver for guests: the kernel's VFIO driver, a derived
    /// one, or the vendor's.
    fn check_ready_driver(
        &self,
        device: HostDeviceId,
        allowed: &AllowedFunction,
        stand: ReadyDriver,
    ) -> Result<(), DeviceError> {
        let function = allowed.function();
        let driver = function.driver.as_deref();
        if let Some(wanted) = allowed.tags().vgpu_type {
            let wrong = self.sysfs().other_vgpu(function.address, wanted);
            if let Some(reason) = wrong.map_err(unreadable(device))? {
                return Err(DeviceError::Quarantined {
                    device,
                    cause: UnfitReason::Driver,
                    reason,
                });
            }
        }
        let reason = match (stand, driver) {
            (ReadyDriver::Vfio, Some(driver)) if driver.contains("vfio") => return Ok(()),
            (ReadyDriver::Vfio, Some(_)) if self.offers_vfio(device, function.address)? => {
                return Ok(());
            }
            (ReadyDriver::Vendors, Some(_)) => return Ok(()),
            (ReadyDriver::Vfio, driver) => format!(
                "it is to go to a guest as it is (managed = no), and is on {}, which does not hand it to guests; bind it to \
                 {VFIO_DRIVER}, or to its vendor's VFIO driver",
                driver.unwrap_or("no driver")
            ),
            (ReadyDriver::Vendors, None) => {
                "it is on no driver; load its vendor's driver".to_owned()
            }
        };
        Err(DeviceError::Quarantined {
            device,
            cause: UnfitReason::Driver,
            reason,
        })
    }

    fn offers_vfio(&self, device: HostDeviceId, address: PciAddress) -> Result<bool, DeviceError> {
        self.sysfs()
            .offers_vfio(address)
            .map_err(unreadable(device))
    }
}
