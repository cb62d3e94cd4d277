//! [`HostResources`]: the production implementation of [`GuestResources`], with devices through the driver and disks
//! below `instances_path`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_agent_devices::{Fabric, FabricError};
use berth_agent_images::{
    ConfigDrive, ConfigDriveChange, DiskError, DiskPlan, Disks, ImageDownload, ImageSource,
};
use berth_agent_journal::{BoundDevices, GuestRequest, NamedDevice as _, ReleasedDevices};
use berth_model::{ConsumerUuid, Disposition, PciAddress};
use berth_net::SwitchInterface;
use berth_virt::guest_spec::{GuestDevice, GuestDisks, GuestSpec, HostPath, ProjectId};
use berth_virt::{DeviceError, MdevSource, UnfitReason, VirtDriver, WantedDevice};

use crate::files::{FileRefusal, GuestFiles};
use crate::host_ports::HostPorts;
use crate::resources::{GuestResources, Provision, ResourceError, no_disks};

/// Devices and disks of this host.
pub struct HostResources<D> {
    driver: Arc<D>,
    files: GuestFiles,
    disks: Option<Arc<Disks>>,
    ports: HostPorts,
    fabric: Option<Arc<Fabric>>,
    /// Consecutive failed resets by device, if the cause may be temporary.
    failures: Mutex<BTreeMap<String, u32>>,
}

impl<D: VirtDriver> HostResources<D> {
    /// Resources without managed disks and without a switch. Instances with a disk plan are refused.
    #[must_use]
    pub fn new(driver: Arc<D>, files: GuestFiles) -> Self {
        Self {
            driver,
            files,
            disks: None,
            ports: HostPorts::InMemory,
            fabric: None,
            failures: Mutex::default(),
        }
    }

    #[must_use]
    pub fn with_disks(self, disks: Disks) -> Self {
        Self {
            disks: Some(Arc::new(disks)),
            ..self
        }
    }

    #[must_use]
    pub fn with_ports(self, ports: HostPorts) -> Self {
        Self { ports, ..self }
    }

    /// With partitions of the NVSwitch fabric.
    #[must_use]
    pub fn with_fabric(self, fabric: Fabric) -> Self {
        Self {
            fabric: Some(Arc::new(fabric)),
            ..self
        }
    }

    /// Whether a device whose reset failed must be quarantined: it is unhealthy, or the reset failed too often.
    fn must_quarantine(&self, name: &str, error: &DeviceError) -> bool {
        let mut failures = self.failures();
        let failures = failures.entry(name.to_owned()).or_default();
        *failures += u32::from(error.disposition() == Disposition::Retry);
        berth_agent_devices::must_quarantine(error, *failures)
    }

    fn failures(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        let failures = self.failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets a device of a guest that is removed, or that no longer has the device.
    async fn reset(
        &self,
        guest: ConsumerUuid,
        device: &WantedDevice,
        released: &mut ReleasedDevices,
    ) -> Result<(), ResourceError> {
        let name = device.device.name();
        let shown = device.host_device();
        match self.driver.reset_device(device).await {
            Ok(reset) => {
                tracing::debug!(%guest, device = %shown, ?reset, "device released");
                self.failures().remove(&name);
                released.clean.insert(name);
            }
            // A vanished device cannot be reset, and the guest must not wait for it. If it returns, the accelerator
            // service treats it as new, and it is cleaned before its next use.
            Err(error) if error.quarantine() == Some(UnfitReason::Vanished) => {
                tracing::warn!(%guest, device = %shown, %error, "a device of a guest has vanished");
                // A new card in this slot starts with a count of 0.
                self.failures().remove(&name);
            }
            Err(error) if self.must_quarantine(&name, &error) => {
                tracing::warn!(%guest, device = %shown, %error, "reset of a released device failed; device quarantined");
                self.failures().remove(&name);
                released.quarantined.insert(name, error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn disks_for(&self, guest: &Provision<'_>) -> Result<Option<&Disks>, ResourceError> {
        match &self.disks {
            None if !guest.disks.is_none() => Err(no_disks()),
            disks => Ok(disks.as_deref()),
        }
    }
}

/// The guest's devices, with the parents and types of mediated devices.
pub(crate) fn wanted_devices<'a>(
    guest: &Provision<'a>,
) -> impl Iterator<Item = WantedDevice> + use<'a> {
    let (bound, mdevs) = (guest.bound, guest.mdevs);
    let devices = guest.spec.devices.as_slice().iter();
    devices.map(move |attached| WantedDevice {
        mdev: mdev_source(attached.device, bound)
            .or_else(|| flavor_mdev_source(attached.device, mdevs)),
        device: attached.device,
    })
}

/// The PCI functions of a guest.
fn functions(spec: &GuestSpec) -> BTreeSet<PciAddress> {
    let devices = spec.devices.as_slice().iter();
    let functions = devices.filter_map(|attached| match attached.device {
        GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => Some(address),
        GuestDevice::Mdev { .. } => None,
    });
    functions.collect()
}

fn fabric_failure(functions: &BTreeSet<PciAddress>, error: &FabricError) -> ResourceError {
    let reason = error.to_string();
    let what = |id: &u32| format!("Fabric Manager partition {id}");
    match error {
        FabricError::NoPartition(refused) => ResourceError::Refused {
            what: gpus(&refused.functions),
            reason,
        },
        FabricError::Held { id, .. } => ResourceError::Refused {
            what: what(id),
            reason,
        },
        FabricError::NoHook { id, .. } | FabricError::Hook { id, .. } => ResourceError::Failed {
            what: what(id),
            reason,
        },
        FabricError::Journal(_) => ResourceError::Failed {
            what: gpus(functions),
            reason,
        },
    }
}

fn gpus(functions: &BTreeSet<PciAddress>) -> String {
    let named: Vec<_> = functions.iter().map(ToString::to_string).collect();
    let noun = if named.len() == 1 { "GPU" } else { "GPUs" };
    format!("{noun} {}", named.join(", "))
}

fn mdev_source(device: GuestDevice, bound: &BoundDevices) -> Option<MdevSource> {
    let found = bound.iter().find(|bound| bound.device == device)?;
    let parent = found.mdev.as_ref()?;
    Some(MdevSource {
        parent: parent.address,
        mdev_type: parent.asked_type.clone(),
    })
}

/// The parent and type of a mediated device from the flavor.
fn flavor_mdev_source(device: GuestDevice, mdevs: &[WantedDevice]) -> Option<MdevSource> {
    let found = mdevs.iter().find(|wanted| wanted.device == device)?;
    found.mdev.clone()
}

impl<D: VirtDriver> GuestResources for HostResources<D> {
    fn files(&self) -> &GuestFiles {
        &self.files
    }

    fn check_present(&self, spec: &GuestSpec) -> Result<(), FileRefusal> {
        self.files.check_present(spec)
    }

    async fn store_secrets(&self, request: &GuestRequest) -> Result<(), ResourceError> {
        match (&self.disks, request.disks().config_drive()) {
            (Some(disks), Some(drive)) => Ok(disks.store_config_drive(request.uuid(), drive)?),
            _ => Ok(()),
        }
    }

    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        for device in wanted_devices(&guest) {
            self.driver.check_device(&device).await?;
        }
        if let Some(fabric) = &self.fabric {
            let functions = functions(guest.spec);
            let checked = fabric.check(&functions);
            checked.map_err(|error| fabric_failure(&functions, &error))?;
        }
        self.ports.check(guest.spec).await?;
        match self.disks_for(&guest)? {
            Some(disks) => Ok(disks.check(&guest.disk_provision())?),
            None => Ok(()),
        }
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        // Disks first: an image may take long, and a device should not be touched for a guest without a disk.
        if let Some(disks) = self.disks_for(&guest)? {
            disks.prepare(&guest.disk_provision()).await?;
        }
        for device in wanted_devices(&guest) {
            self.driver.prepare_device(&device).await?;
        }
        // After the devices: Fabric Manager must not find the GPUs on the host's own driver.
        if let Some(fabric) = &self.fabric {
            let functions = functions(guest.spec);
            let activated = fabric.activate(guest.spec.uuid, &functions).await;
            activated.map_err(|error| fabric_failure(&functions, &error))?;
        }
        self.ports.plug(guest.spec).await
    }

    async fn check_function(&self, function: &WantedDevice) -> Result<(), ResourceError> {
        Ok(self.driver.check_device(function).await?)
    }

    async fn prepare_function(
        &self,
        _: ConsumerUuid,
        function: &WantedDevice,
    ) -> Result<(), ResourceError> {
        Ok(self.driver.prepare_device(function).await?)
    }

    async fn release_function(
        &self,
        guest: ConsumerUuid,
        function: &WantedDevice,
    ) -> Result<ReleasedDevices, ResourceError> {
        let mut released = ReleasedDevices::default();
        self.reset(guest, function, &mut released).await?;
        Ok(released)
    }

    async fn wait_for_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        self.ports.wait_plugged(spec).await
    }

    async fn check_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        self.ports.check(spec).await
    }

    async fn plug_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        self.ports.plug(spec).await
    }

    async fn unplug_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        self.ports.unplug(spec).await
    }

    async fn plugged_ports(&self) -> Result<Vec<SwitchInterface>, ResourceError> {
        self.ports.plugged().await
    }

    async fn remove_orphan_port(&self, interface: &SwitchInterface) -> Result<(), ResourceError> {
        self.ports.remove_orphan(interface).await
    }

    async fn release(&self, guest: Provision<'_>) -> Result<ReleasedDevices, ResourceError> {
        // Try all: one failed reset must not keep another device or the tenant's disks allocated.
        let mut first = self.ports.unplug(guest.spec).await.err();
        if let Some(fabric) = &self.fabric {
            let functions = functions(guest.spec);
            if let Err(error) = fabric.deactivate(guest.spec.uuid, &functions).await {
                first.get_or_insert(fabric_failure(&functions, &error));
            }
        }
        let mut released = ReleasedDevices::default();
        for device in wanted_devices(&guest) {
            if let Err(error) = self.reset(guest.spec.uuid, &device, &mut released).await {
                first.get_or_insert(error);
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

    fn download_progress(&self, plan: &DiskPlan) -> Option<ImageDownload> {
        self.disks.as_ref()?.download_progress(plan)
    }

    async fn remove(&self, guest: ConsumerUuid, files: &[HostPath]) -> Result<(), ResourceError> {
        match &self.disks {
            _ if files.is_empty() => Ok(()),
            Some(disks) => Ok(disks.remove(guest, files).await?),
            None => Err(no_disks()),
        }
    }

    async fn change_config_drive(
        &self,
        guest: ConsumerUuid,
        drive: &ConfigDrive,
        change: ConfigDriveChange,
    ) -> Result<ConfigDrive, ResourceError> {
        match &self.disks {
            Some(disks) => Ok(disks.change_config_drive(guest, drive, change)?),
            None => Err(no_disks()),
        }
    }

    async fn rewrite_config_drive(
        &self,
        spec: &GuestSpec,
        drive: &ConfigDrive,
    ) -> Result<(), ResourceError> {
        match &self.disks {
            Some(disks) => Ok(disks.rewrite_config_drive(spec, drive).await?),
            None => Err(no_disks()),
        }
    }

    async fn discard_secrets(&self, guest: ConsumerUuid) -> Result<(), ResourceError> {
        match &self.disks {
            Some(disks) => Ok(disks.discard_config_drive(guest)?),
            None => Ok(()),
        }
    }

    async fn remove_unused(&self, guests: &[&GuestRequest]) {
        if let Some(disks) = &self.disks {
            let instances = guests.iter().map(|request| request.uuid()).collect();
            let images = guests.iter().flat_map(|request| request.disks().images());
            let images = images.map(ImageSource::key).collect();
            disks.clone().remove_unused(instances, images).await;
        }
    }
}

#[cfg(test)]
mod tests;
