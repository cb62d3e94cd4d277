//! Lists all devices that are prepared for guests. Records are written before each operation, so after a kill there may
//! be a record without an operation, but never an operation without a record.

use std::collections::BTreeSet;

use berth_model::PciAddress;
use berth_sysfs::{HomeDriver, VFIO_DRIVER};
use berth_virt::guest_spec::{GuestDevice, PciManagement};
use berth_virt::{DeviceError, HostDeviceId, MdevSource, PreparedDevice, Preparer, WantedDevice};

use super::{HostDevices, unreadable, whole};

impl HostDevices {
    /// All mediated devices, and each function that was taken from its driver and is on VFIO. A function on VFIO
    /// without a record may belong there.
    pub(crate) fn prepared(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        let unobservable = |error: &dyn std::error::Error| DeviceError::Unobservable {
            reason: whole(error),
        };
        let mut prepared = Vec::new();
        for mdev in self
            .sysfs()
            .mdev_devices()
            .map_err(|error| unobservable(&error))?
        {
            let is_ours = self
                .home_drivers
                .is_recorded_mdev(mdev.uuid)
                .map_err(|error| unobservable(&error))?;
            // A parent that is on no PCI bus was none of ours to part.
            let parent = mdev.parent.parse::<PciAddress>().ok();
            prepared.push(PreparedDevice {
                wanted: WantedDevice {
                    device: GuestDevice::Mdev { uuid: mdev.uuid },
                    mdev: parent.map(|parent| MdevSource {
                        parent,
                        mdev_type: mdev.type_id,
                    }),
                },
                by: match is_ours && parent.is_some() {
                    true => Preparer::Berth,
                    false => Preparer::Another,
                },
                group_members: BTreeSet::new(),
            });
        }
        for address in self
            .home_drivers
            .functions()
            .map_err(|error| unobservable(&error))?
        {
            if self.is_taken(address)? {
                let device = GuestDevice::Pci {
                    address,
                    managed: PciManagement::Hypervisor,
                };
                let members = self.sysfs().other_group_members(address);
                prepared.push(PreparedDevice {
                    wanted: WantedDevice::of(device),
                    by: Preparer::Berth,
                    group_members: members.map_err(|error| unobservable(&error))?,
                });
            }
        }
        Ok(prepared)
    }

    /// Whether a function that a list means is on VFIO and rests elsewhere.
    fn is_taken(&self, address: PciAddress) -> Result<bool, DeviceError> {
        let device = HostDeviceId::Function(address);
        let allowed = match self.allowed(device, address) {
            Ok(allowed) => allowed,
            Err(DeviceError::NotAllowed { .. } | DeviceError::Missing { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        if allowed.tags().managed == Some(false) {
            return Ok(false);
        }
        let home = self.home_drivers.recall(address);
        let home = home.map_err(|error| DeviceError::Unfinished {
            device,
            call: "reading the recorded driver",
            reason: error.to_string(),
        })?;
        let rests_elsewhere =
            matches!(&home, HomeDriver::Driver(driver) if driver.as_deref() != Some(VFIO_DRIVER));
        let on_vfio = allowed.function().driver.as_deref() == Some(VFIO_DRIVER);
        let reserved = self.sysfs().driver_override(address);
        let reserved = reserved.map_err(unreadable(device))?;
        Ok(rests_elsewhere && (on_vfio || reserved.as_deref() == Some(VFIO_DRIVER)))
    }
}
