//! Back to nothing, the last step first: off the hypervisor, devices reset and given back, accelerator requests unbound or
//! deleted. Journaled like the way forward, and like it done again from its beginning where it was cut off.
//!
//! A device that cannot be taken back now stays the guest's, and its request stays bound: whoever got it next would find what
//! the guest left in it. One whose reset fails for good is set aside before the guest lets go of it: it is withheld until an
//! operator releases it (`berth device release`), and the guest ends. One that is gone from the host holds nobody up.

use berth_agent_images::RecreateDisks;
use berth_agent_journal::{BoundDevices, GuestRecord, JournalError, SpawnStep, StepState};
use berth_client::AcceleratorError;
use berth_virt::guest_spec::{GuestDevices, GuestSpec, GuestSpecError};
use berth_virt::{GuestError, VirtDriver};

use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn::held_elsewhere;
use crate::spawn_context::{SpawnContext, host_device, host_devices, is_ours};

/// Why a guest is not gone yet; it will be tried again.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The hypervisor does not let it go.
    #[error("the guest cannot be taken off the hypervisor: {0}")]
    Driver(#[from] GuestError),
    /// A device or a disk cannot be taken back now.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// Its accelerator requests cannot be ended.
    #[error("its accelerator requests cannot be given back: {0}")]
    Accelerators(#[from] AcceleratorError),
    /// Nobody can be asked to end its accelerator requests.
    #[error(
        "its accelerator requests are bound, and no accelerator service is configured that would give them back; set [cyborg] \
         endpoint_override (or auth_url) as it was when the guest was built"
    )]
    NoService,
    /// What the journal has of it makes no guest.
    #[error("what the journal has of it makes no guest: {0}")]
    Spec(#[from] GuestSpecError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What becomes of the guest's accelerator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requests {
    /// They stay, and hold nothing: the spawn failed, and whoever made them decides.
    Unbind,
    /// They go with the guest.
    Delete,
}

/// Undoes all that may be there of the guest.
pub(super) async fn undo<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
    requests: Requests,
) -> Result<(), UndoError> {
    off_the_hypervisor(context, record).await?;
    resources_back(context, record).await?;
    context.resources.discard(record.request.uuid()).await?;
    if record.may_have_acted(SpawnStep::Check) {
        let uuid = record.request.uuid();
        context
            .note(uuid, SpawnStep::Check, StepState::Undone)
            .await?;
    }
    end_requests(context, record, requests).await
}

async fn off_the_hypervisor<D: VirtDriver, R: GuestResources>(
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
        // It was undone before, and a call that was given up made something of it since.
        acted.push(SpawnStep::Define);
    }
    for step in &acted {
        context.note(uuid, *step, StepState::Undoing).await?;
    }
    if is_there {
        let _ = context.driver.destroy(uuid).await?;
    }
    for step in acted {
        context.note(uuid, step, StepState::Undone).await?;
    }
    Ok(())
}

async fn resources_back<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
) -> Result<(), UndoError> {
    if !record.may_have_acted(SpawnStep::Prepare) {
        return Ok(());
    }
    let uuid = record.request.uuid();
    let bound = record.devices.clone().unwrap_or_default();
    let spec = bound.attached_to(record.request.spec())?;
    context
        .note(uuid, SpawnStep::Prepare, StepState::Undoing)
        .await?;
    let spec = without_foreign(context, record, spec).await?;
    let provision = Provision {
        spec: &spec,
        bound: &bound,
        mdevs: record.request.picked().mdevs(),
        disks: record.request.disks(),
        has_run_before: !record.ran_in().is_empty(),
        recreate: RecreateDisks::None,
    };
    match context.resources.release(provision).await {
        // What must go to nobody is set aside before the guest lets go of it.
        Ok(released) => Ok(context
            .journal
            .record_released_devices(uuid, &released)
            .await?),
        Err(error) => {
            let reason = error.to_string();
            context
                .note_with(uuid, SpawnStep::Prepare, StepState::Undoing, reason)
                .await?;
            Err(error.into())
        }
    }
}

/// The guest without the devices that another guest on the hypervisor has by now: resetting one would pull it out of that
/// guest's hands.
async fn without_foreign<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
    spec: GuestSpec,
) -> Result<GuestSpec, UndoError> {
    let foreign = held_elsewhere(context, &record.request, &host_devices(&spec)).await?;
    for (device, holder) in &foreign {
        tracing::warn!(%device, %holder, "a device of a guest that goes is another guest's by now; it is left alone");
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
    requests: Requests,
) -> Result<(), UndoError> {
    let uuid = record.request.uuid();
    let had_devices = record
        .devices
        .as_ref()
        .is_some_and(|it| *it != BoundDevices::default());
    if had_devices && !record.request.arqs().is_empty() && context.accelerators.is_absent() {
        return Err(UndoError::NoService);
    }
    if record.may_have_acted(SpawnStep::Bind) {
        // Before the requests are given back: whoever is bound to the devices next must find them free.
        context.journal.drop_devices(uuid).await?;
    }
    match requests {
        Requests::Delete => context.accelerators.delete(&record.request).await?,
        Requests::Unbind if record.may_have_acted(SpawnStep::Bind) => {
            context.accelerators.unbind(&record.request).await?;
        }
        Requests::Unbind => {}
    }
    if record.may_have_acted(SpawnStep::Bind) {
        context
            .note(uuid, SpawnStep::Bind, StepState::Undone)
            .await?;
    }
    Ok(())
}
