//! What the steps of a guest act through.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_agent_journal::{
    GuestJournal, GuestRequest, JournalError, SpawnStep, StepRecord, StepState,
};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{GuestDevice, GuestSpec};
use berth_virt::{GuestError, GuestOnHost, HostDevice, Redefined, Spawned, VirtDriver};

use crate::accelerators::Accelerators;
use crate::files::{AllowedSpec, FileRefused};
use crate::resources::GuestResources;

/// The journal and the three truths that guests are made of.
pub(super) struct SpawnContext<D, R> {
    pub(super) journal: Arc<dyn GuestJournal>,
    pub(super) driver: Arc<D>,
    pub(super) resources: Arc<R>,
    pub(super) accelerators: Accelerators,
    /// Which boot of the host this is (`/proc/sys/kernel/random/boot_id`).
    pub(super) boot_id: String,
}

impl<D: VirtDriver, R: GuestResources> SpawnContext<D, R> {
    pub(super) async fn note(
        &self,
        guest: ConsumerUuid,
        step: SpawnStep,
        state: StepState,
    ) -> Result<(), JournalError> {
        let record = StepRecord::from(state);
        self.journal.record_step(guest, step, &record).await
    }

    pub(super) async fn note_with(
        &self,
        guest: ConsumerUuid,
        step: SpawnStep,
        state: StepState,
        detail: String,
    ) -> Result<(), JournalError> {
        let record = StepRecord { state, detail };
        self.journal.record_step(guest, step, &record).await
    }

    /// The guest's document, where every file of it may be the guest's.
    pub(super) fn allow(&self, spec: &GuestSpec) -> Result<AllowedSpec, FileRefused> {
        self.resources.files().allow(spec)
    }

    /// The only way by which a document comes to the hypervisor.
    pub(super) async fn spawn(&self, spec: &AllowedSpec) -> Result<Spawned, GuestError> {
        self.driver.spawn(spec).await
    }

    /// The same for a guest that is off and has another document.
    pub(super) async fn redefine(&self, spec: &AllowedSpec) -> Result<Redefined, GuestError> {
        self.driver.redefine(spec).await
    }

    /// The guest on the hypervisor, where one of its UUID is there. It is an error where it cannot be read: nobody can say then
    /// whether it is the one.
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

/// Whether the guest of this UUID on the hypervisor is the one that was asked for, and not another's: a guest that says nothing
/// of itself is not ours to touch.
pub(super) fn is_ours(found: &GuestOnHost, request: &GuestRequest) -> bool {
    found.owner.as_ref().is_some_and(|mark| {
        mark.consumer == request.spec().owner.consumer && mark.requests == *request.arqs()
    })
}

/// A device as the hypervisor names it.
pub(super) fn host_device(device: &GuestDevice) -> HostDevice {
    match device {
        GuestDevice::Pci { address, .. } | GuestDevice::VendorVfio { address } => {
            HostDevice::Function(*address)
        }
        GuestDevice::Mdev { uuid } => HostDevice::Mdev(*uuid),
    }
}

/// The devices of a guest as the hypervisor names them.
pub(super) fn host_devices(spec: &GuestSpec) -> BTreeSet<HostDevice> {
    let devices = spec.devices.as_slice().iter();
    devices
        .map(|attached| host_device(&attached.device))
        .collect()
}
