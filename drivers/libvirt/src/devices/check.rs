//! Read-only checks whether a device may be given to a guest.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use berth_sysfs::{Allowed, ConfigSpace, GroupError, MdevDevice, Sriov, VFIO_DRIVER, ViableGroup};
use berth_virt::{DeviceError, HostDevice, MdevSource, UnfitReason, WantedDevice};
use uuid::Uuid;

use super::{HostDevices, Stand, Wanted, unreadable};

impl HostDevices {
    /// Checks whether the device may be given to a guest now. Returns the devices that would go with it: no other guest
    /// may have any of them.
    pub(crate) fn check(&self, wanted: &WantedDevice) -> Result<BTreeSet<PciAddress>, DeviceError> {
        let device = wanted.host_device();
        match self.done_with(wanted)? {
            Wanted::Managed(address) => {
                let (allowed, group) = self.function(device, address)?;
                self.may_come_along(device, &allowed, &group)
            }
            Wanted::InPlace(address, stand) => {
                let (allowed, group) = self.function(device, address)?;
                self.stands_ready(device, &allowed, stand)?;
                self.may_come_along(device, &allowed, &group)
            }
            Wanted::Made(uuid, source) => {
                self.mdev_source(device, uuid, source)?;
                Ok(BTreeSet::new())
            }
            Wanted::Found(uuid) => {
                let found = self.found(device, uuid)?;
                self.mdev_parent_allowed(device, &found.parent, &found.type_id)?;
                Ok(BTreeSet::new())
            }
        }
    }

    /// A function that may be given to a guest, with its IOMMU group.
    pub(super) fn function(
        &self,
        device: HostDevice,
        address: PciAddress,
    ) -> Result<(Allowed, ViableGroup), DeviceError> {
        let allowed = self.allowed(device, address)?;
        self.is_not_the_hosts(device, address)?;
        if let Sriov::Physical { enabled, .. } = &allowed.function().sriov
            && *enabled > 0
        {
            let reason = format!(
                "it has {enabled} virtual functions, which would go with it (sriov_numvfs)"
            );
            return Err(DeviceError::InUse { device, reason });
        }
        self.answers(device, &allowed)?;
        match self.sysfs().viable_group(&allowed, &self.list) {
            Ok(group) => Ok((allowed, group)),
            Err(GroupError::Sysfs(error)) => Err(unreadable(device)(error)),
            Err(error) => Err(DeviceError::NotWhole {
                device,
                reason: error.to_string(),
            }),
        }
    }

    pub(super) fn is_not_the_hosts(
        &self,
        device: HostDevice,
        address: PciAddress,
    ) -> Result<(), DeviceError> {
        let used = self
            .sysfs()
            .host_use(address, &self.procfs)
            .map_err(unreadable(device))?;
        match used {
            None => Ok(()),
            Some(used) if device == HostDevice::Function(address) => Err(DeviceError::HostsOwn {
                device,
                reason: used.to_string(),
            }),
            Some(used) => Err(DeviceError::HostsOwn {
                device,
                reason: format!("it goes with PCI function {address}, and {used}"),
            }),
        }
    }

    fn answers(&self, device: HostDevice, allowed: &Allowed) -> Result<(), DeviceError> {
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
        device: HostDevice,
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
                "it exists as {} of {}, wanted is {} of {parent}",
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
        device: HostDevice,
        parent: &str,
        type_id: &str,
    ) -> Result<(), DeviceError> {
        let not_allowed = |reason: String| DeviceError::NotAllowed { device, reason };
        let Ok(address) = parent.parse::<PciAddress>() else {
            return Err(not_allowed(format!(
                "its parent {parent} is no PCI function"
            )));
        };
        let for_flavors = self.mdev_types.of(address);
        if for_flavors.is_none_or(|enabled| enabled.id != type_id) {
            self.allowed(device, address).map_err(|error| match error {
                DeviceError::NotAllowed { reason, .. } => not_allowed(format!(
                    "{type_id} is no enabled mdev type of its parent, and {reason}"
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
        device: HostDevice,
        uuid: Uuid,
    ) -> Result<Option<MdevDevice>, DeviceError> {
        let all = self.sysfs().mdev_devices().map_err(unreadable(device))?;
        Ok(all.into_iter().find(|mdev| mdev.uuid == uuid))
    }

    fn found(&self, device: HostDevice, uuid: Uuid) -> Result<MdevDevice, DeviceError> {
        let reason = "nobody made it, and it is not said of what it would be made".to_owned();
        self.mdev(device, uuid)?
            .ok_or(DeviceError::Missing { device, reason })
    }

    /// A function that stays on its driver must be on one that gives it to guests: the kernel's VFIO driver, a derived
    /// one, or the vendor's.
    fn stands_ready(
        &self,
        device: HostDevice,
        allowed: &Allowed,
        stand: Stand,
    ) -> Result<(), DeviceError> {
        let function = allowed.function();
        let driver = function.driver.as_deref();
        let reason = match (stand, driver) {
            (Stand::Vfio, Some(driver)) if driver.contains("vfio") => return Ok(()),
            (Stand::Vfio, Some(_)) if self.offers_vfio(device, function.address)? => return Ok(()),
            (Stand::Vendors, Some(_)) => return Ok(()),
            (Stand::Vfio, driver) => format!(
                "it is to go to a guest as it is (managed = no), and is on {}, which does not hand it to guests; bind it to \
                 {VFIO_DRIVER}, or to its vendor's VFIO driver",
                driver.unwrap_or("no driver")
            ),
            (Stand::Vendors, None) => {
                "it is on no driver; its vendor's driver is what gives it to a guest".to_owned()
            }
        };
        Err(DeviceError::Quarantined {
            device,
            cause: UnfitReason::Driver,
            reason,
        })
    }

    fn offers_vfio(&self, device: HostDevice, address: PciAddress) -> Result<bool, DeviceError> {
        self.sysfs()
            .offers_vfio(address)
            .map_err(unreadable(device))
    }
}
