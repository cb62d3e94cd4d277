//! The steps of a spawn, each of which takes the one before by value: asked for, bound, checked, prepared, defined, running.
//!
//! Only what is bound has devices, only what is checked may touch them, only what is prepared reaches the hypervisor. A step is
//! begun in the journal before it acts and ended there afterwards; each looks before it acts, so a spawn that was cut off is
//! done again from its first step, and what is there already is found and kept.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_agent_images::RecreateDisks;
use berth_agent_journal::{
    Blame, BoundDevices, DeviceClaim, GuestRecord, GuestRequest, GuestRequestError,
    InstanceOverrides, JournalError, NamedDevice as _, SpawnStep, StepRecord, StepState,
    TransitionPhase, WithheldReason,
};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{DesiredPower, GuestSpec, GuestSpecError};
use berth_virt::{GuestError, GuestState, HostDevice, PowerAction, Redefined, VirtDriver};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::binding_wait::BindRefused;
use crate::files::AllowedSpec;
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn_context::{SpawnContext, host_devices, is_ours};

/// How long a guest waits between two looks whether the reset of its device has ended.
const RESETTING: Duration = Duration::from_millis(250);

/// How long it waits at most: a reset that takes longer does not come back, and another host may have such a device.
pub(super) const LONGEST_RESET: Duration = Duration::from_mins(15);

/// Why a spawn does not go on.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Its devices are not bound.
    #[error(transparent)]
    Bind(#[from] BindRefused),
    /// Another guest has one of them.
    #[error("device {device} is guest {holder}'s")]
    DeviceTaken {
        device: String,
        holder: ConsumerUuid,
    },
    /// One of them goes to nobody now.
    #[error("device {device} goes to no guest now: {reason}")]
    DeviceWithheld {
        device: String,
        reason: WithheldReason,
    },
    /// The guest cannot have these devices beside its own.
    #[error("the guest cannot have its devices: {0}")]
    Spec(#[from] GuestSpecError),
    /// What the journal has of it does not fit together.
    #[error("what the journal has of it makes no guest: {0}")]
    BootSource(#[from] GuestRequestError),
    /// A device or a disk says no.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The hypervisor says no.
    #[error(transparent)]
    Driver(#[from] GuestError),
    /// Its course is another by now, or the agent stops.
    #[error("the spawn was cut short")]
    Cancelled,
    /// The journal cannot be written: nothing goes on, forward or backward, until it can.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl SpawnError {
    /// What is to blame, where another device of this host would not mend it.
    pub(crate) fn blame(&self) -> Option<Blame> {
        match self {
            Self::Resource(ResourceError::BadImage { .. }) => Some(Blame::Image),
            Self::Resource(ResourceError::NoDisks { .. }) => Some(Blame::Host),
            _ => None,
        }
    }
}

/// A guest that is asked for.
pub(super) struct Requested {
    request: GuestRequest,
    power: DesiredPower,
    /// What it was bound to when the spawn began, where it was cut off after that.
    before: Option<BoundDevices>,
    /// The boot of the host in which it ran before; empty where it never did.
    ran_in: String,
    life: InstanceOverrides,
    /// Whether the hypervisor's document may be that of another form.
    is_stale: bool,
}

struct SpawnState {
    request: GuestRequest,
    devices: BoundDevices,
    spec: GuestSpec,
    ran_in: String,
    life: InstanceOverrides,
    is_stale: bool,
}

impl SpawnState {
    fn provision(&self) -> Provision<'_> {
        Provision {
            spec: &self.spec,
            bound: &self.devices,
            mdevs: self.request.picked().mdevs(),
            disks: self.request.disks(),
            has_run_before: !self.ran_in.is_empty(),
            recreate: self.life.anew(),
        }
    }
}

/// An instance that has claimed its devices.
pub(super) struct Bound(SpawnState);
/// An instance whose devices and files passed the host's checks.
pub(super) struct CheckedSpawn(SpawnState, AllowedSpec);
/// An instance whose devices and disks are prepared.
pub(super) struct PreparedSpawn(SpawnState, AllowedSpec);
/// An instance that is defined in the hypervisor.
pub(super) struct DefinedSpawn(SpawnState, AllowedSpec);
/// A guest that is as it should be: running, where that is wanted.
#[derive(Debug)]
pub(super) struct Running;

impl Requested {
    pub(super) fn of(record: GuestRecord) -> Result<Self, GuestRequestError> {
        let stage = record.life.turning.as_ref().map(|turning| &turning.stage);
        let is_making = matches!(stage, Some(TransitionPhase::Rebuilding { .. }));
        Ok(Self {
            ran_in: record.ran_in().to_owned(),
            request: record.present()?,
            is_stale: is_making && record.state(SpawnStep::Define) != Some(StepState::Done),
            power: record.power,
            before: record.devices,
            life: record.life,
        })
    }

    /// All steps, one after the other.
    pub(super) async fn spawn<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<Running, SpawnError> {
        // A step that has begun is waited for: what is cut off in the middle may still act afterwards. The first one only waits,
        // and an image that comes is nobody's yet.
        let goes_on = || match cancel.is_cancelled() {
            true => Err(SpawnError::Cancelled),
            false => Ok(()),
        };
        let bound = self.bind(context, cancel).await?;
        goes_on()?;
        let checked = bound.check(context).await?;
        goes_on()?;
        let prepared = checked.prepare(context, cancel).await?;
        goes_on()?;
        let defined = prepared.define(context).await?;
        goes_on()?;
        defined.start(context).await
    }

    async fn bind<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<Bound, SpawnError> {
        let uuid = self.request.uuid();
        context
            .note(uuid, SpawnStep::Bind, StepState::Begun)
            .await?;
        let now = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(SpawnError::Cancelled),
            now = context.accelerators.bound(&self.request) => now?,
        };
        if let Some(before) = self.before
            && before != now
        {
            return Err(BindRefused::Changed { before, now }.into());
        }
        let mut spec = now.attached_to(self.request.spec())?;
        spec.power = self.power;
        let devices = spec.devices.as_slice().iter();
        let names: BTreeSet<_> = devices.map(|attached| attached.device.name()).collect();
        claimed(context, cancel, uuid, &names, &now).await?;
        Ok(Bound(SpawnState {
            request: self.request,
            devices: now,
            spec,
            ran_in: self.ran_in,
            life: self.life,
            is_stale: self.is_stale,
        }))
    }
}

/// Makes the devices the guest's own. A reset between two guests is waited for: it ends by itself, or it hangs.
async fn claimed<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    cancel: &CancellationToken,
    uuid: ConsumerUuid,
    names: &BTreeSet<String>,
    devices: &BoundDevices,
) -> Result<(), SpawnError> {
    let until = Instant::now() + LONGEST_RESET;
    loop {
        match context.journal.claim_devices(uuid, names, devices).await? {
            DeviceClaim::Claimed => return Ok(()),
            DeviceClaim::Taken { device, guest } => {
                let holder = guest;
                return Err(SpawnError::DeviceTaken { device, holder });
            }
            DeviceClaim::Withheld {
                why: WithheldReason::Resetting,
                ..
            } if Instant::now() < until => tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SpawnError::Cancelled),
                () = sleep(RESETTING) => {}
            },
            DeviceClaim::Withheld { device, why } => {
                let reason = why;
                return Err(SpawnError::DeviceWithheld { device, reason });
            }
        }
    }
}

impl Bound {
    async fn check<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<CheckedSpawn, SpawnError> {
        let Self(guest) = self;
        let uuid = guest.request.uuid();
        context
            .note(uuid, SpawnStep::Check, StepState::Begun)
            .await?;
        let wanted = host_devices(&guest.spec);
        if let Some((device, holder)) = held_elsewhere(context, &guest.request, &wanted)
            .await?
            .pop()
        {
            return Err(SpawnError::DeviceTaken {
                device: device.to_string(),
                holder,
            });
        }
        let spec = context.allow(&guest.spec).map_err(ResourceError::from)?;
        context.resources.check(guest.provision()).await?;
        context
            .note(uuid, SpawnStep::Check, StepState::Done)
            .await?;
        Ok(CheckedSpawn(guest, spec))
    }
}

/// Those of the devices that another guest on the hypervisor has, whoever made it.
pub(super) async fn held_elsewhere<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    request: &GuestRequest,
    wanted: &BTreeSet<HostDevice>,
) -> Result<Vec<(HostDevice, ConsumerUuid)>, GuestError> {
    let mut held = Vec::new();
    if wanted.is_empty() {
        return Ok(held);
    }
    for (uuid, other) in context.driver.guests().await? {
        if uuid == request.uuid() && is_ours(&other, request) {
            continue;
        }
        other.is_readable(uuid)?;
        let devices = other.devices.iter().map(|held| held.device);
        let ours = devices.filter(|device| wanted.contains(device));
        held.extend(ours.map(|device| (device, uuid)));
    }
    Ok(held)
}

impl CheckedSpawn {
    async fn prepare<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
        cancel: &CancellationToken,
    ) -> Result<PreparedSpawn, SpawnError> {
        let Self(guest, spec) = self;
        let uuid = guest.request.uuid();
        if guest.request.disks().images().next().is_some() {
            let provision = guest.provision();
            // What a guest that ran has of its image is its own, whatever became of the image.
            let is_new = !provision.has_run_before || provision.recreate != RecreateDisks::None;
            let project = is_new.then_some(&provision.spec.owner.project);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(SpawnError::Cancelled),
                fetched = context.resources.fetch(guest.request.disks(), project) => fetched?,
            }
            if cancel.is_cancelled() {
                return Err(SpawnError::Cancelled);
            }
        }
        context
            .note(uuid, SpawnStep::Prepare, StepState::Begun)
            .await?;
        context.resources.prepare(guest.provision()).await?;
        context
            .note(uuid, SpawnStep::Prepare, StepState::Done)
            .await?;
        Ok(PreparedSpawn(guest, spec))
    }
}

impl PreparedSpawn {
    async fn define<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<DefinedSpawn, SpawnError> {
        let Self(guest, spec) = self;
        let uuid = guest.request.uuid();
        if !guest.is_stale && guest.life.turning.is_some() {
            // It has its new document: a word that this begins again would make it be given it again.
            return Ok(DefinedSpawn(guest, spec));
        }
        context
            .note(uuid, SpawnStep::Define, StepState::Begun)
            .await?;
        let found = context.on_host(uuid).await?;
        let found = found.filter(|found| is_ours(found, &guest.request));
        let off = spec.off();
        let is_there = match found {
            // One that is ours may run already: a spawn that was cut off.
            Some(_) if !guest.is_stale => true,
            Some(found) => {
                if found.state != GuestState::ShutOff {
                    // Somebody started it meanwhile, in its former form.
                    let grace = Duration::ZERO;
                    let _ = context
                        .driver
                        .power(uuid, PowerAction::Stop { grace })
                        .await?;
                }
                context.redefine(&off).await? == Redefined::Redefined
            }
            None => false,
        };
        // Another's is the driver's to refuse.
        if !is_there {
            let _ = context.spawn(&off).await?;
        }
        context
            .note(uuid, SpawnStep::Define, StepState::Done)
            .await?;
        Ok(DefinedSpawn(guest, spec))
    }
}

impl DefinedSpawn {
    async fn start<D: VirtDriver, R: GuestResources>(
        self,
        context: &SpawnContext<D, R>,
    ) -> Result<Running, SpawnError> {
        let Self(guest, spec) = self;
        let uuid = guest.request.uuid();
        context
            .note_with(uuid, SpawnStep::Start, StepState::Begun, guest.ran_in)
            .await?;
        let _ = context.spawn(&spec).await?;
        let (state, detail) = (StepState::Done, context.boot_id.clone());
        let steps = [(SpawnStep::Start, StepRecord { state, detail })];
        let life = InstanceOverrides {
            turning: None,
            ended: false,
            ..guest.life
        };
        context
            .journal
            .record_overrides(uuid, &life, &steps)
            .await?;
        Ok(Running)
    }
}
