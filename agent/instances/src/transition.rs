//! Rescue, unrescue, rebuild: a guest goes off, is given another form, and is started in it, its devices its own all the while.
//!
//! Each is a turn of its life in the journal, in two stages. While it is leaving, it goes off and the files are removed that are
//! made anew; nothing is made. From then on it goes through the steps of its spawn ([`berth_agent_journal::SpawnStep`]), in its new form; nothing
//! is removed. Either stage may be done again from its beginning, so a kill anywhere is gone on from, and one that cannot be done
//! now is held with the reason. Images are fetched, and devices looked at, before the guest is switched off.
//!
//! Callers: the admin API.

mod decision;
mod error;
mod stop;

use std::time::Duration;

use berth_agent_images::ImageSource;
use berth_agent_journal::{GuestRecord, InstanceOverrides, SpawnStep, StepRecord, StepState};
use berth_model::{ConsumerUuid, Disposition, NodeName};
use berth_virt::guest_spec::{DesiredPower, GuestBoot};
use berth_virt::{GuestError, Powered, VirtDriver};
use berth_wire::guest::ActionId;

use crate::guests::Guests;
use crate::outcome::ReconcileOutcome;
use crate::power::{PowerError, settled};
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::transition::decision::{TransitionDecision, next};

pub use error::TransitionError;
pub use stop::StopError;
pub(super) use stop::leave;

/// What a guest is rescued with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RescueSystem {
    /// A root disk over this image, before its own.
    Image(ImageSource),
    /// A kernel of the host; its disks stay as they are.
    Kernel(GuestBoot),
}

/// What is asked of a guest's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransitionRequest {
    /// Boot from something else, its own root disk beside.
    Rescue {
        system: RescueSystem,
        /// How long it may take to end by itself.
        grace: Duration,
    },
    /// Back to its own.
    Unrescue,
    /// Its root disk made anew.
    Rebuild {
        image: ImageSource,
        /// Whether its ephemeral disks stay.
        preserve_ephemeral: bool,
    },
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Changes a guest's life, and waits until that is done. What was written down is gone on with whatever happens to the agent.
    ///
    /// Errors: [`TransitionError`]; unless it says that the guest is held, the guest is as it was.
    pub async fn change(
        &self,
        uuid: ConsumerUuid,
        change: &TransitionRequest,
    ) -> Result<(), TransitionError> {
        self.change_once(uuid, change, None).await
    }

    /// The same, once for each id: what is done by the id of the last action is not done again, and what is under way by it is
    /// gone on with.
    pub async fn change_once(
        &self,
        uuid: ConsumerUuid,
        change: &TransitionRequest,
        id: Option<&ActionId>,
    ) -> Result<(), TransitionError> {
        let context = &self.inner.context;
        // Before the look: a delete that is written after it is heard.
        let ear = self.listen(uuid);
        let record = context
            .journal
            .guest(uuid)
            .await
            .map_err(PowerError::from)?;
        let record = record.ok_or(PowerError::NotFound { uuid })?;
        // An image may take long: it comes before anything of the guest is touched, and before its turn is taken.
        if let TransitionDecision::Begin(life, _) =
            next(&record, change, id, context.resources.as_ref())?
        {
            let form = life.rescue.as_ref().or(life.rebuilt.as_ref());
            if let Some(form) = form.filter(|_| *change != TransitionRequest::Unrescue) {
                let project = &record.request.spec().owner.project;
                let _shown = self.inner.images.begin(uuid, &form.plan);
                tokio::select! {
                    biased;
                    () = ear.interrupted() => return Err(TransitionError::Overtaken { uuid }),
                    fetched = context.resources.fetch(&form.plan, Some(project)) => fetched?,
                }
            }
        }
        drop(ear);
        let (turn, record) = self.in_turn(uuid).await?;
        match next(&record, change, id, context.resources.as_ref())? {
            TransitionDecision::Already => return Ok(()),
            TransitionDecision::InProgress if id.is_none() || record.life.has_acted(id) => {}
            TransitionDecision::InProgress => {
                let life = record.life.clone().acted_by(id);
                let written = context.journal.record_overrides(uuid, &life, &[]).await;
                written.map_err(PowerError::from)?;
            }
            TransitionDecision::Begin(life, power) => {
                let life = *life;
                self.fit_for(&record, &life).await?;
                self.begin(&record, &life, power).await?;
            }
        }
        let end = match self.travel(&turn, uuid).await {
            Ok(end) => end,
            Err(reason) => ReconcileOutcome::Held { reason },
        };
        self.ended(uuid, &end);
        match end {
            ReconcileOutcome::Settled => Ok(()),
            ReconcileOutcome::Held { reason } => Err(TransitionError::Held {
                uuid,
                reason: Box::new(reason),
            }),
            ReconcileOutcome::Undone { .. }
            | ReconcileOutcome::Gone
            | ReconcileOutcome::Interrupted => Err(TransitionError::Overtaken { uuid }),
        }
    }

    /// Whether it may start in its new form: it is asked while the guest still is as it was.
    async fn fit_for(
        &self,
        record: &GuestRecord,
        life: &InstanceOverrides,
    ) -> Result<(), TransitionError> {
        let context = &self.inner.context;
        let devices = self.still_bound(record).await?;
        let then = GuestRecord {
            life: life.clone(),
            ..record.clone()
        };
        let request = then.present().map_err(PowerError::from)?;
        let spec = devices
            .attached_to(request.spec())
            .map_err(PowerError::from)?;
        let provision = Provision {
            spec: &spec,
            bound: &devices,
            mdevs: request.picked().mdevs(),
            disks: request.disks(),
            has_run_before: !record.ran_in().is_empty(),
            recreate: life.anew(),
        };
        context.allow(&spec).map_err(ResourceError::from)?;
        context
            .resources
            .present(&spec)
            .map_err(ResourceError::from)?;
        Ok(context.resources.check(provision).await?)
    }

    async fn begin(
        &self,
        record: &GuestRecord,
        life: &InstanceOverrides,
        power: DesiredPower,
    ) -> Result<(), TransitionError> {
        let (context, uuid) = (&self.inner.context, record.request.uuid());
        let steps = [
            (SpawnStep::Prepare, StepRecord::from(StepState::Begun)),
            (
                SpawnStep::Start,
                StepRecord {
                    state: StepState::Undoing,
                    detail: record.ran_in().to_owned(),
                },
            ),
        ];
        context
            .journal
            .set_power(uuid, power)
            .await
            .map_err(PowerError::from)?;
        if let Err(error) = context.journal.record_overrides(uuid, life, &steps).await {
            context
                .journal
                .set_power(uuid, record.power)
                .await
                .map_err(PowerError::from)?;
            return Err(PowerError::from(error).into());
        }
        Ok(())
    }

    /// Writes a running guest's memory to disk and switches it off.
    ///
    /// Errors: It holds devices, whose state nobody can write down; it is on its way; the hypervisor refuses.
    pub async fn suspend(
        &self,
        uuid: ConsumerUuid,
        id: Option<&ActionId>,
    ) -> Result<Powered, PowerError> {
        let context = &self.inner.context;
        let (_turn, record) = self.in_turn(uuid).await?;
        settled(&record)?;
        if record.life.has_acted(id) {
            return Ok(Powered::AlreadySo);
        }
        let suspending = |suspending| InstanceOverrides {
            suspending,
            ..record.life.clone()
        };
        // First how: one that is only wanted off would be stopped after a kill, and its memory lost.
        context
            .journal
            .record_overrides(uuid, &suspending(true), &[])
            .await?;
        context
            .journal
            .set_power(uuid, DesiredPower::ShutOff)
            .await?;
        let suspended = match context.driver.suspend(uuid).await {
            // It may still be done, and is looked for.
            Err(error) if error.disposition() == Disposition::Retry => return Err(error.into()),
            Err(error) => {
                context.journal.set_power(uuid, record.power).await?;
                Err(error)
            }
            Ok(suspended) => Ok(suspended),
        };
        let life = suspending(false).acted_by(id.filter(|_| suspended.is_ok()));
        context.journal.record_overrides(uuid, &life, &[]).await?;
        Ok(suspended?)
    }

    /// Refuses to move a guest to another host while it runs: with devices it cannot be done, and without it is not done yet.
    pub async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> Result<(), PowerError> {
        let context = &self.inner.context;
        let (_turn, record) = self.in_turn(uuid).await?;
        settled(&record)?;
        tracing::debug!(guest = %uuid, %destination, "asked to move a guest");
        if let Some(found) = context.on_host(uuid).await? {
            found.holds_nothing_for(
                uuid,
                "be moved while it runs",
                "a device cannot come along, and its state cannot be read",
            )?;
        }
        // Not the driver's: whoever takes it over would have to know of it first, or it would be brought back here.
        Err(GuestError::Unsupported {
            driver: context.driver.name(),
            action: "move a guest to another host while it runs",
        }
        .into())
    }
}
