//! What guests use of this host: devices through the driver, disks below `instances_path`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_agent_images::{DiskError, DiskPlan, Disks, ImageDownload, ImageSource};
use berth_agent_journal::{BoundDevices, GuestRequest, NamedDevice as _, ReleasedDevices};
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::guest_spec::{GuestDevice, GuestDisks, GuestSpec, HostPath, ProjectId};
use berth_virt::{DeviceError, MdevSource, UnfitReason, VirtDriver, WantedDevice};

use crate::files::{FileRefused, GuestFiles};
use crate::resources::{GuestResources, Provision, ResourceError, no_disks};

/// Devices and disks of this host.
pub struct HostResources<D> {
    driver: Arc<D>,
    files: GuestFiles,
    disks: Option<Arc<Disks>>,
    /// How often a device was not taken back for a reason that may pass, by name.
    failures: Mutex<BTreeMap<String, u32>>,
}

impl<D: VirtDriver> HostResources<D> {
    /// The driver's devices, for guests with these files. Guests whose disks are to be made are refused.
    #[must_use]
    pub fn new(driver: Arc<D>, files: GuestFiles) -> Self {
        Self {
            driver,
            files,
            disks: None,
            failures: Mutex::default(),
        }
    }

    /// The same with disks.
    #[must_use]
    pub fn with_disks(self, disks: Disks) -> Self {
        Self {
            disks: Some(Arc::new(disks)),
            ..self
        }
    }

    /// Whether a device that was not taken back will not be: it is not well, or it was tried often enough.
    fn is_spoilt(&self, name: &str, error: &DeviceError) -> bool {
        let mut failures = self.failures();
        let failures = failures.entry(name.to_owned()).or_default();
        *failures += u32::from(error.disposition() == Disposition::Retry);
        berth_agent_devices::must_quarantine(error, *failures)
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        let failures = self.failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner)
    }

    fn disks_for(&self, guest: &Provision<'_>) -> Result<Option<&Disks>, ResourceError> {
        match &self.disks {
            None if !guest.disks.is_none() => Err(no_disks()),
            disks => Ok(disks.as_deref()),
        }
    }
}

/// The guest's devices, with what its mediated ones are made of.
fn wanted<'a>(guest: &Provision<'a>) -> impl Iterator<Item = WantedDevice> + use<'a> {
    let (bound, mdevs) = (guest.bound, guest.mdevs);
    let devices = guest.spec.devices.as_slice().iter();
    devices.map(move |attached| WantedDevice {
        mdev: mdev_source(attached.device, bound).or_else(|| made_of(attached.device, mdevs)),
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

/// What a mediated device of the flavor is made of.
fn made_of(device: GuestDevice, mdevs: &[WantedDevice]) -> Option<MdevSource> {
    let found = mdevs.iter().find(|wanted| wanted.device == device)?;
    found.mdev.clone()
}

impl<D: VirtDriver> GuestResources for HostResources<D> {
    fn files(&self) -> &GuestFiles {
        &self.files
    }

    fn present(&self, spec: &GuestSpec) -> Result<(), FileRefused> {
        self.files.present(spec)
    }

    async fn keep(&self, request: &GuestRequest) -> Result<(), ResourceError> {
        match (&self.disks, request.disks().config_drive()) {
            (Some(disks), Some(drive)) => Ok(disks.keep(request.uuid(), drive)?),
            _ => Ok(()),
        }
    }

    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        for device in wanted(&guest) {
            self.driver.check_device(&device).await?;
        }
        match self.disks_for(&guest)? {
            Some(disks) => Ok(disks.check(&guest.disk_provision())?),
            None => Ok(()),
        }
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        // Disks first: an image may take long, and a device is better not touched for a guest that will have no disk.
        if let Some(disks) = self.disks_for(&guest)? {
            disks.prepare(&guest.disk_provision()).await?;
        }
        for device in wanted(&guest) {
            self.driver.prepare_device(&device).await?;
        }
        Ok(())
    }

    async fn release(&self, guest: Provision<'_>) -> Result<ReleasedDevices, ResourceError> {
        // Each is tried: a card that does not come back is no reason to keep another one, nor a tenant's disks.
        let mut first = None;
        let mut released = ReleasedDevices::default();
        for device in wanted(&guest) {
            let name = device.device.name();
            match self.driver.reset_device(&device).await {
                Ok(reset) => {
                    tracing::debug!(guest = %guest.spec.uuid, device = %device.host_device(), ?reset, "taken back");
                    self.failures().remove(&name);
                    released.clean.insert(name);
                }
                // There is nothing to reset, and a guest that goes must not wait for a card that may never come back. One
                // that does is new to the accelerator service, and cleaned before anybody gets it.
                Err(error) if error.quarantine() == Some(UnfitReason::Vanished) => {
                    tracing::warn!(guest = %guest.spec.uuid, device = %device.host_device(), %error, "a device of a guest that goes is gone");
                    // The card that is there next begins anew.
                    self.failures().remove(&name);
                }
                Err(error) if self.is_spoilt(&name, &error) => {
                    tracing::warn!(guest = %guest.spec.uuid, device = %device.host_device(), %error, "a device of a guest that goes did not come back clean, and goes to nobody");
                    self.failures().remove(&name);
                    released.spoilt.insert(name, error.to_string());
                }
                Err(error) => {
                    first.get_or_insert(ResourceError::from(error));
                }
            }
        }
        if let Some(disks) = self.disks_for(&guest)?
            && let Err(error) = disks.release(&guest.disk_provision()).await
        {
            first.get_or_insert(error.into());
        }
        first.map_or(Ok(released), Err)
    }

    fn lay_out(&self, guest: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, ResourceError> {
        match &self.disks {
            Some(disks) => Ok(disks
                .instances_path()
                .disks(guest, plan)
                .map_err(DiskError::from)?),
            None => Err(no_disks()),
        }
    }

    async fn fetch(
        &self,
        plan: &DiskPlan,
        project: Option<&ProjectId>,
    ) -> Result<(), ResourceError> {
        match &self.disks {
            Some(disks) => Ok(disks.fetch(plan, project).await?),
            None => Ok(()),
        }
    }

    fn coming(&self, plan: &DiskPlan) -> Option<ImageDownload> {
        self.disks.as_ref()?.coming(plan)
    }

    async fn remove(&self, guest: ConsumerUuid, files: &[HostPath]) -> Result<(), ResourceError> {
        match &self.disks {
            _ if files.is_empty() => Ok(()),
            Some(disks) => Ok(disks.remove(guest, files).await?),
            None => Err(no_disks()),
        }
    }

    async fn discard(&self, guest: ConsumerUuid) -> Result<(), ResourceError> {
        match &self.disks {
            Some(disks) => Ok(disks.discard(guest)?),
            None => Ok(()),
        }
    }

    async fn tidy(&self, guests: &[&GuestRequest]) {
        if let Some(disks) = &self.disks {
            let instances = guests.iter().map(|request| request.uuid()).collect();
            let images = guests.iter().flat_map(|request| request.disks().images());
            let images = images.map(ImageSource::key).collect();
            disks.clone().tidy(instances, images).await;
        }
    }
}

#[cfg(test)]
mod tests;
