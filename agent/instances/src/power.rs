//! A guest's power: what is asked for is written down first, then done. A guest that is switched on again is checked as if
//! it were spawned: its requests must still be bound to its devices, and each device must still be fit for it.

use std::sync::Arc;
use std::time::Duration;

use berth_agent_images::RecreateDisks;
use berth_agent_journal::{
    BoundDevices, Goal, GuestRecord, GuestRequest, GuestRequestError, InstanceOverrides,
    JournalError, SpawnStep, StepRecord, StepState,
};
use berth_keyed_tasks::KeyGuard;
use berth_model::{ConsumerUuid, Disposition};
use berth_virt::guest_spec::{DesiredPower, GuestSpec, GuestSpecError};
use berth_virt::{
    GuestError, GuestHardware, GuestState, PowerAction, Powered, Spawned, VirtDriver,
};
use berth_wire::guest::ActionId;
use tokio::time::timeout;

use crate::binding_wait::BindRefused;
use crate::guests::Guests;
use crate::resources::{GuestResources, Provision, ResourceError};

/// How long an action waits for a journey of the guest that is under way: one that only looks is over at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a guest's power was not changed. Unless the hypervisor did not answer, it is as it was.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    /// It is not known here.
    #[error("there is no guest {uuid} on this host")]
    NotFound { uuid: ConsumerUuid },
    /// It is being spawned, undone or deleted, or its power is being changed.
    #[error("guest {uuid} is on its context ({course}); ask again when it is there")]
    Busy {
        uuid: ConsumerUuid,
        /// What is under way.
        course: &'static str,
    },
    /// Its devices are not bound for it any more.
    #[error("the guest does not start: {0}")]
    Bind(#[from] BindRefused),
    /// A device is not fit for it.
    #[error("the guest does not start: {0}")]
    Resource(#[from] ResourceError),
    /// What the journal has of it makes no guest.
    #[error("what the journal has of it makes no guest: {0}")]
    Spec(#[from] GuestSpecError),
    /// What the journal has of it does not fit together.
    #[error("what the journal has of it makes no guest: {0}")]
    BootSource(#[from] GuestRequestError),
    /// The hypervisor says no.
    #[error(transparent)]
    Driver(#[from] GuestError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What the guest should be after an action.
fn wanted_after(action: PowerAction, now: DesiredPower) -> DesiredPower {
    match action {
        PowerAction::Start | PowerAction::Unpause => DesiredPower::Running,
        PowerAction::Stop { .. } => DesiredPower::ShutOff,
        PowerAction::Pause => DesiredPower::Paused,
        PowerAction::SoftReboot => now,
        PowerAction::HardReboot => DesiredPower::Running,
    }
}

/// Checks that nothing is in progress for the instance.
pub(super) fn settled(record: &GuestRecord) -> Result<(), PowerError> {
    let course = match record.course {
        Goal::Spawn if record.state(SpawnStep::Start) == Some(StepState::Done) => {
            return Ok(());
        }
        Goal::Spawn => {
            let turning = record.life.turning.as_ref();
            turning.map_or("spawn", |turning| turning.turn.as_str())
        }
        Goal::Undo { .. } => "undo",
        Goal::Destroy => "destroy",
    };
    let uuid = record.request.uuid();
    Err(PowerError::Busy { uuid, course })
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Does this with a guest's power. What was written down is gone on with whatever happens to the agent.
    ///
    /// Errors: There is no such guest, it is on its way, its devices are not its own any more, or the hypervisor
    /// refuses: then it is as it was, or, where a reboot had switched it off already, is tried again. Where the
    /// hypervisor did not answer, it may still be done, and is seen to.
    pub async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<Powered, PowerError> {
        self.power_once(uuid, action, None).await
    }

    /// The same, once for each id: that of the last action is known for good, and asked for again it is only said to be so.
    pub async fn power_once(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
        id: Option<&ActionId>,
    ) -> Result<Powered, PowerError> {
        let context = &self.inner.context;
        let (_turn, record) = self.in_turn(uuid).await?;
        settled(&record)?;
        if record.life.has_acted(id) {
            return Ok(Powered::AlreadySo);
        }
        let fit = match action {
            PowerAction::Start | PowerAction::HardReboot => Some(self.fit_to_start(&record).await?),
            _ => None,
        };
        let life = InstanceOverrides {
            suspending: false,
            ..record.life.clone()
        };
        let wanted = wanted_after(action, record.power);
        let start = |state, detail: &str| {
            let detail = detail.to_owned();
            [(SpawnStep::Start, StepRecord { state, detail })]
        };
        // From here on a kill leaves a spawn to be gone on with, and not a guest that seems to have ended itself.
        let starts = wanted == DesiredPower::Running && action != PowerAction::SoftReboot;
        if starts {
            let begun = start(StepState::Begun, record.ran_in());
            context
                .journal
                .record_overrides(uuid, &life, &begun)
                .await?;
        } else if record.life.suspending {
            context.journal.record_overrides(uuid, &life, &[]).await?;
        }
        context.journal.set_power(uuid, wanted).await?;
        let acted = async {
            if let Some(fit) = &fit {
                context.resources.prepare(fit.provision(&record)).await?;
                if self.starts_as_its_own(&fit.spec, action).await? {
                    return self.start_as_its_own(fit, action).await;
                }
            }
            Ok(context.driver.power(uuid, action).await?)
        };
        let powered = match acted.await {
            Ok(powered) => powered,
            Err(PowerError::Driver(error)) if error.disposition() == Disposition::Retry => {
                if starts {
                    self.set_out(uuid);
                }
                return Err(error.into());
            }
            // It was switched off for its reboot, and is brought back as after a boot of the host, once it can be.
            Err(error) if action == PowerAction::HardReboot && self.is_off(uuid).await => {
                if id.is_some() {
                    // That is the reboot: who asks again must not switch it off once more.
                    context
                        .journal
                        .record_overrides(uuid, &life.acted_by(id), &[])
                        .await?;
                }
                self.set_out(uuid);
                return Err(error);
            }
            Err(error) => {
                if starts {
                    let before = start(StepState::Done, record.ran_in());
                    context
                        .journal
                        .record_overrides(uuid, &life, &before)
                        .await?;
                }
                context.journal.set_power(uuid, record.power).await?;
                return Err(error);
            }
        };
        if wanted == DesiredPower::Running {
            // It runs in this boot of the host, whichever it was started in first.
            let done = start(StepState::Done, &context.boot_id);
            let life = InstanceOverrides {
                ended: false,
                ..life
            };
            context
                .journal
                .record_overrides(uuid, &life.acted_by(id), &done)
                .await?;
        } else if id.is_some() {
            context
                .journal
                .record_overrides(uuid, &life.acted_by(id), &[])
                .await?;
        }
        Ok(powered)
    }

    /// Whether the guest is started by its spec and not by what the hypervisor has of it: where somebody gave it other processors,
    /// memory, disks or interfaces there. Of one that runs nobody sees what it would be started with, so a hard reboot always is.
    async fn starts_as_its_own(
        &self,
        spec: &GuestSpec,
        action: PowerAction,
    ) -> Result<bool, GuestError> {
        let found = self.inner.context.on_host(spec.uuid).await?;
        // Another's, or one with other devices, is not to be made this one.
        let found = found.filter(|found| found.difference(spec).is_none());
        let Some((state, has)) = found.and_then(|found| Some((found.state, found.hardware?)))
        else {
            return Ok(false);
        };
        let differs = has.difference(&GuestHardware::of(spec)).is_some();
        Ok(action == PowerAction::HardReboot || (state == GuestState::ShutOff && differs))
    }

    /// Starts a guest with what is its own, once it is off.
    async fn start_as_its_own(
        &self,
        fit: &Fit,
        action: PowerAction,
    ) -> Result<Powered, PowerError> {
        let context = &self.inner.context;
        if action == PowerAction::HardReboot {
            let grace = Duration::ZERO;
            let stop = PowerAction::Stop { grace };
            let _ = context.driver.power(fit.spec.uuid, stop).await?;
        }
        let spec = context.allow(&fit.spec).map_err(ResourceError::from)?;
        Ok(match context.spawn(&spec).await? {
            Spawned::Spawned => Powered::Done,
            Spawned::AlreadyThere => Powered::AlreadySo,
        })
    }

    /// Whether the hypervisor has it switched off, or does not say that it runs.
    async fn is_off(&self, uuid: ConsumerUuid) -> bool {
        let found = self.inner.context.on_host(uuid).await;
        !found.is_ok_and(|found| found.is_some_and(|it| it.state != GuestState::ShutOff))
    }

    /// The guest as the journal has it, in its turn.
    pub(super) async fn in_turn(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<(KeyGuard<ConsumerUuid>, GuestRecord), PowerError> {
        let context = &self.inner.context;
        // A guest that is not known gets no turn to wait for.
        if context.journal.guest(uuid).await?.is_none() {
            return Err(PowerError::NotFound { uuid });
        }
        let Ok(turn) = timeout(PATIENCE, self.turn(uuid)).await else {
            let course = "a step is under way";
            return Err(PowerError::Busy { uuid, course });
        };
        let record = context.journal.guest(uuid).await?;
        let record = record.ok_or(PowerError::NotFound { uuid })?;
        Ok((turn, Arc::unwrap_or_clone(record)))
    }

    /// The guest's devices, where its requests are still bound to them.
    pub(super) async fn still_bound(
        &self,
        record: &GuestRecord,
    ) -> Result<BoundDevices, PowerError> {
        let devices = record.devices.clone().unwrap_or_default();
        let accelerators = &self.inner.context.accelerators;
        let now = accelerators.bound_now(&record.request).await?;
        if now != devices {
            let before = devices;
            return Err(BindRefused::Changed { before, now }.into());
        }
        Ok(devices)
    }

    /// Whether the guest may have its devices now, as before its first start.
    async fn fit_to_start(&self, record: &GuestRecord) -> Result<Fit, PowerError> {
        let context = &self.inner.context;
        let devices = self.still_bound(record).await?;
        let request = record.present()?;
        let mut spec = devices.attached_to(request.spec())?;
        spec.power = DesiredPower::Running;
        let fit = Fit {
            devices,
            request,
            spec,
        };
        // The hypervisor has its document, which an earlier release may have taken there.
        context.allow(&fit.spec).map_err(ResourceError::from)?;
        context.resources.check(fit.provision(record)).await?;
        Ok(fit)
    }
}

/// A guest that may have its devices now.
struct Fit {
    devices: BoundDevices,
    request: GuestRequest,
    spec: GuestSpec,
}

impl Fit {
    fn provision(&self, record: &GuestRecord) -> Provision<'_> {
        Provision {
            spec: &self.spec,
            bound: &self.devices,
            mdevs: self.request.picked().mdevs(),
            disks: self.request.disks(),
            has_run_before: !record.ran_in().is_empty(),
            recreate: RecreateDisks::None,
        }
    }
}
