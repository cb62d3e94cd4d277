//! Undoes a spawn, last step first: removes the guest from the hypervisor, resets and releases its devices, and unbinds
//! or deletes its accelerator requests.
//!
//! ```text
//! undo: remove_from_hypervisor -> release_resources -> discard_secrets -> end_requests
//! ```
//!
//! Every step is journaled, and an interrupted undo is repeated from its beginning. If a device cannot be reset now, it stays
//! allocated and its accelerator request stays bound; otherwise the next instance would see this tenant's data. If the reset fails
//! for good, the device is quarantined until an operator releases it (`berth device release`), and the undo continues. A device
//! that has vanished from the host does not block the undo.

use berth_agent_images::RecreateDisks;
use berth_agent_journal::{GuestRecord, JournalError, SpawnStep, StepState};
use berth_client::AcceleratorError;
use berth_virt::guest_spec::{GuestDevices, GuestSpec, GuestSpecError};
use berth_virt::{GuestError, VirtDriver};

use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn::devices_of_other_guests;
use crate::spawn_context::{SpawnContext, host_device, host_devices, is_ours};

/// Why an undo failed. It will be retried.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error("the guest cannot be removed from the hypervisor: {0}")]
    Driver(#[from] GuestError),
    /// A device or disk cannot be released now.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The accelerator requests cannot be unbound or deleted.
    #[error("the accelerator requests cannot be released: {0}")]
    Accelerators(#[from] AcceleratorError),
    /// No accelerator service is configured that could release the requests.
    #[error(
        "the accelerator requests are bound, but no accelerator service is configured to release them; set [cyborg] \
         endpoint_override (or auth_url) as it was when the guest was built"
    )]
    NoService,
    #[error("the record of the guest in the journal is invalid: {0}")]
    Spec(#[from] GuestSpecError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What happens to the guest's accelerator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestDisposal {
    /// Unbind and keep them: the spawn failed, and their creator decides about them.
    Unbind,
    /// Delete them with the guest.
    Delete,
}

/// Undoes everything that a spawn may have done.
pub(super) async fn undo<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
    requests: RequestDisposal,
) -> Result<(), UndoError> {
    remove_from_hypervisor(context, record).await?;
    release_resources(context, record).await?;
    context
        .resources
        .discard_secrets(record.request.uuid())
        .await?;
    if record.may_have_acted(SpawnStep::Check) {
        let uuid = record.request.uuid();
        context
            .record_step(uuid, SpawnStep::Check, StepState::Undone)
            .await?;
    }
    end_requests(context, record, requests).await
}

async fn remove_from_hypervisor<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
) -> Result<(), UndoError> {
    let uuid = record.request.uuid();
    let steps = [SpawnStep::Start, SpawnStep::Define];
    if steps.iter().all(|step| record.state(*step).is_none()) {
        return Ok(());
    }
    let found = context.on_host(uuid).await?;
    let is_there = found.is_some_and(|found| is_ours(&found, &record.request));
    let acted = steps
        .into_iter()
        .filter(|step| record.may_have_acted(*step));
    let mut acted: Vec<_> = acted.collect();
    if acted.is_empty() && is_there {
        // An undone spawn, and a late call that created the guest afterwards.
        acted.push(SpawnStep::Define);
    }
    for step in &acted {
        context.record_step(uuid, *step, StepState::Undoing).await?;
    }
    if is_there {
        let _ = context.driver.destroy(uuid).await?;
    }
    for step in acted {
        context.record_step(uuid, step, StepState::Undone).await?;
    }
    Ok(())
}

async fn release_resources<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
) -> Result<(), UndoError> {
    if !record.may_have_acted(SpawnStep::Prepare) {
        return Ok(());
    }
    let uuid = record.request.uuid();
    let bound = record.devices.clone().unwrap_or_default();
    let mut spec = bound.attached_to(record.request.spec())?;
    spec.interfaces = record.interfaces().clone();
    context
        .record_step(uuid, SpawnStep::Prepare, StepState::Undoing)
        .await?;
    let spec = without_foreign(context, record, spec).await?;
    let provision = Provision {
        spec: &spec,
        bound: &bound,
        mdevs: record.request.host_placement().mdevs(),
        disks: record.request.disks(),
        has_run_before: !record.ran_in().is_empty(),
        recreate: RecreateDisks::None,
    };
    match context.resources.release(provision).await {
        // Devices are quarantined in the same write that releases them.
        Ok(released) => Ok(context
            .journal
            .record_released_devices(uuid, &released)
            .await?),
        Err(error) => {
            let reason = error.to_string();
            context
                .record_step_with(uuid, SpawnStep::Prepare, StepState::Undoing, reason)
                .await?;
            Err(error.into())
        }
    }
}

/// The spec without the devices that another guest on the hypervisor uses: a reset would take them away from that
/// guest.
async fn without_foreign<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
    spec: GuestSpec,
) -> Result<GuestSpec, UndoError> {
    let foreign = devices_of_other_guests(context, &record.request, &host_devices(&spec)).await?;
    for (device, holder) in &foreign {
        tracing::warn!(%device, %holder, "not resetting a device of a removed guest: another guest uses it");
    }
    let kept = spec.devices.as_slice().iter().filter(|attached| {
        let device = host_device(&attached.device);
        !foreign.iter().any(|(held, _)| *held == device)
    });
    Ok(GuestSpec {
        devices: GuestDevices::new(kept.copied().collect())?,
        ..spec
    })
}

async fn end_requests<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
    requests: RequestDisposal,
) -> Result<(), UndoError> {
    let uuid = record.request.uuid();
    let had_devices = record
        .devices
        .as_ref()
        .is_some_and(|devices| !devices.is_empty());
    if had_devices && !record.request.arqs().is_empty() && context.accelerators.is_absent() {
        return Err(UndoError::NoService);
    }
    if record.may_have_acted(SpawnStep::Bind) {
        // Release the claims before the requests: the next user of the devices must find them unclaimed.
        context.journal.drop_devices(uuid).await?;
    }
    match requests {
        RequestDisposal::Delete => context.accelerators.delete(&record.request).await?,
        RequestDisposal::Unbind if record.may_have_acted(SpawnStep::Bind) => {
            context.accelerators.unbind(&record.request).await?;
        }
        RequestDisposal::Unbind => {}
    }
    if record.may_have_acted(SpawnStep::Bind) {
        context
            .record_step(uuid, SpawnStep::Bind, StepState::Undone)
            .await?;
    }
    Ok(())
}
