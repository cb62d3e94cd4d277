//! What guests use of this host: devices through the driver.

use std::sync::Arc;

use berth_virt::guest_spec::GuestDevice;
use berth_virt::{DeviceError, MdevSource, VirtDriver, WantedDevice};

use super::BoundDevices;
use super::resources::{GuestResources, Provision, ResourceError};

/// The devices of this host.
pub struct HostResources<D> {
    driver: Arc<D>,
}

impl<D: VirtDriver> HostResources<D> {
    /// The driver's devices. Guests whose disks are to be made are refused.
    #[must_use]
    pub fn new(driver: Arc<D>) -> Self {
        Self { driver }
    }
}

/// Refuses a guest whose disks are to be made.
fn without_disks(guest: &Provision<'_>) -> Result<(), ResourceError> {
    if guest.disks.is_none() {
        return Ok(());
    }
    Err(ResourceError::Refused {
        what: "a disk".to_owned(),
        reason: "this agent makes no disks; name files that are there in spec.disks".to_owned(),
    })
}

/// The guest's devices, with what its mediated ones are made of.
fn wanted<'a>(guest: &Provision<'a>) -> impl Iterator<Item = WantedDevice> + use<'a> {
    let bound = guest.bound;
    let devices = guest.spec.devices.as_slice().iter();
    devices.map(move |attached| WantedDevice {
        mdev: mdev_source(attached.device, bound),
        device: attached.device,
    })
}

fn mdev_source(device: GuestDevice, bound: &BoundDevices) -> Option<MdevSource> {
    let found = bound.iter().find(|bound| bound.device == device)?;
    let parent = found.mdev.as_ref()?;
    Some(MdevSource {
        parent: parent.address,
        mdev_type: parent.asked_type.clone(),
    })
}

impl From<DeviceError> for ResourceError {
    fn from(error: DeviceError) -> Self {
        let said = error.to_string();
        match error {
            DeviceError::NotSupported { .. } => Self::Refused {
                what: "a device".to_owned(),
                reason: said,
            },
            DeviceError::NotAllowed { device, .. }
            | DeviceError::HostsOwn { device, .. }
            | DeviceError::NotWhole { device, .. }
            | DeviceError::Missing { device, .. }
            | DeviceError::InUse { device, .. } => Self::Refused {
                what: device.to_string(),
                reason: said,
            },
            DeviceError::Unfinished { device, .. } | DeviceError::TimedOut { device, .. } => {
                Self::Failed {
                    what: device.to_string(),
                    reason: said,
                }
            }
            DeviceError::Quarantined { device, reason, .. } => Self::Quarantined {
                what: device.to_string(),
                reason,
            },
        }
    }
}

impl<D: VirtDriver> GuestResources for HostResources<D> {
    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        for device in wanted(&guest) {
            self.driver.check_device(&device).await?;
        }
        without_disks(&guest)
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        without_disks(&guest)?;
        for device in wanted(&guest) {
            self.driver.prepare_device(&device).await?;
        }
        Ok(())
    }

    async fn release(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        // Each is tried: a card that does not come back is no reason to keep another one.
        let mut first = None;
        for device in wanted(&guest) {
            match self.driver.reset_device(&device).await {
                Ok(reset) => {
                    tracing::debug!(guest = %guest.spec.uuid, device = %device.host_device(), ?reset, "taken back")
                }
                Err(error) => {
                    first.get_or_insert(ResourceError::from(error));
                }
            }
        }
        first.map_or(Ok(()), Err)
    }
}
