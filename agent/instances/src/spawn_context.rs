//! [`SpawnContext`]: the dependencies that the steps of an instance use, and helpers to identify guests and devices on
//! the hypervisor.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_agent_journal::{
    GuestJournal, GuestRequest, JournalError, SpawnStep, StepRecord, StepState,
};
use berth_keyed_tasks::FairPermits;
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{GuestDevice, GuestSpec};
use berth_virt::{
    GuestError, GuestOnHost, GuestRedefineOutcome, GuestSpawnOutcome, HostDeviceId, VirtDriver,
};

use crate::accelerators::Accelerators;
use crate::files::{AllowedSpec, FileRefusal};
use crate::resources::GuestResources;

/// The journal, the hypervisor driver, the host's resources and the accelerator service.
pub(super) struct SpawnContext<D, R> {
    pub(super) journal: Arc<dyn GuestJournal>,
    pub(super) driver: Arc<D>,
    pub(super) resources: Arc<R>,
    pub(super) accelerators: Accelerators,
    /// Boot ID of the host (`/proc/sys/kernel/random/boot_id`).
    pub(super) boot_id: String,
    /// Permits for builds, by project.
    pub(super) builds: FairPermits<String>,
}

impl<D: VirtDriver, R: GuestResources> SpawnContext<D, R> {
    pub(super) async fn record_step(
        &self,
        guest: ConsumerUuid,
        step: SpawnStep,
        state: StepState,
    ) -> Result<(), JournalError> {
        let record = StepRecord::from(state);
        self.journal.record_step(guest, step, &record).await
    }

    pub(super) async fn record_step_with(
        &self,
        guest: ConsumerUuid,
        step: SpawnStep,
        state: StepState,
        detail: String,
    ) -> Result<(), JournalError> {
        let record = StepRecord { state, detail };
        self.journal.record_step(guest, step, &record).await
    }

    /// Checks every file in the spec.
    pub(super) fn allow(&self, spec: &GuestSpec) -> Result<AllowedSpec, FileRefusal> {
        self.resources.files().allow(spec)
    }

    /// Defines and starts the guest. No other function passes a spec to the hypervisor, so no spec bypasses the file
    /// check.
    pub(super) async fn spawn(&self, spec: &AllowedSpec) -> Result<GuestSpawnOutcome, GuestError> {
        self.driver.spawn(spec).await
    }

    /// Replaces the definition of a guest that is off.
    pub(super) async fn redefine(
        &self,
        spec: &AllowedSpec,
    ) -> Result<GuestRedefineOutcome, GuestError> {
        self.driver.redefine(spec).await
    }

    /// The guest with this UUID on the hypervisor. Fails if its domain XML cannot be parsed, because ownership cannot
    /// be verified then.
    pub(super) async fn on_host(
        &self,
        guest: ConsumerUuid,
    ) -> Result<Option<GuestOnHost>, GuestError> {
        let found = self.driver.guest(guest).await?;
        if let Some(found) = &found {
            found.is_readable(guest)?;
        }
        Ok(found)
    }
}

/// Whether the guest on the hypervisor belongs to this request. A guest without Berth's mark is not ours to touch.
pub(super) fn is_ours(found: &GuestOnHost, request: &GuestRequest) -> bool {
    found.owner.as_ref().is_some_and(|mark| {
        mark.consumer == request.spec().owner.consumer && mark.requests == *request.arqs()
    })
}

/// The hypervisor's name for a device.
pub(super) fn host_device(device: &GuestDevice) -> HostDeviceId {
    match device {
        GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => {
            HostDeviceId::Function(*address)
        }
        GuestDevice::Mdev { uuid } => HostDeviceId::Mdev(*uuid),
    }
}

/// The hypervisor's names for the devices of a guest.
pub(super) fn host_devices(spec: &GuestSpec) -> BTreeSet<HostDeviceId> {
    let devices = spec.devices.as_slice().iter();
    devices
        .map(|attached| host_device(&attached.device))
        .collect()
}
