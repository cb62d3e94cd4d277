//! Transitions: rescue, unrescue and rebuild. The guest is stopped, gets another boot source, and is started again; it
//! keeps its devices.
//!
//! ```text
//! transition_once: fetch image -> lock -> decide -> check -> journal
//!                                                              |
//!                        phase Stopping: stop the guest, remove the disks to recreate
//!                                                              |
//!                        phase Rebuilding: the steps of a spawn, with the new boot source
//! ```
//!
//! Nothing is created while `Stopping`, and nothing is removed while `Rebuilding`, so both phases can be repeated after a kill. A
//! transition that cannot continue is blocked and retried. Images are fetched, and devices checked, before the guest is stopped.
//!
//! This module also suspends guests and changes their config drives. Caller: the admin API.

mod decision;
mod error;
mod stop;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_agent_images::{ConfigDriveChange, ImageSource};
use berth_agent_journal::{GuestRecord, InstanceOverrides, SpawnStep, StepRecord, StepState};
use berth_model::{ConsumerUuid, Disposition, NodeName};
use berth_virt::guest_spec::{DesiredPower, GuestBoot};
use berth_virt::{GuestError, GuestPowerOutcome, VirtDriver};
use berth_wire::guest::ActionId;

use crate::create::check_machine;
use crate::guests::Guests;
use crate::outcome::ReconcileOutcome;
use crate::power::{PowerError, ensure_idle};
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::transition::decision::{TransitionDecision, decide_transition};

pub use error::TransitionError;
pub use stop::StopError;
pub(super) use stop::stop_for_transition;

/// The boot source of a rescue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RescueSystem {
    /// A root disk from this image, in front of the guest's own disks.
    Image(ImageSource),
    /// A kernel of the host, with the guest's own disks.
    Kernel(GuestBoot),
}

/// What describes the machine of a guest that is rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineDescription {
    /// The extra specs of the flavor.
    pub extra_specs: BTreeMap<String, String>,
    /// The properties of the new image.
    pub properties: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransitionRequest {
    /// Boot from a rescue system, with the own root disk as a second disk.
    Rescue {
        system: RescueSystem,
        /// Time for the guest to shut itself down.
        grace: Duration,
    },
    /// Boot from the own root disk again.
    Unrescue,
    /// Recreate the root disk from an image.
    Rebuild {
        image: ImageSource,
        /// Whether to keep the ephemeral disks.
        preserve_ephemeral: bool,
        /// What describes the new machine; `None`: the guest keeps its machine.
        machine: Option<MachineDescription>,
    },
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Runs a transition and waits for it. A transition that is in the journal is completed even if the agent is
    /// killed.
    ///
    /// Errors: [`TransitionError`]. The guest is unchanged, unless the error is `Blocked`.
    pub async fn transition(
        &self,
        uuid: ConsumerUuid,
        request: &TransitionRequest,
    ) -> Result<(), TransitionError> {
        self.transition_once(uuid, request, None).await
    }

    /// Like [`Guests::transition`], but idempotent: a transition with the ID of the last action is not repeated, and
    /// one in progress is continued.
    pub async fn transition_once(
        &self,
        uuid: ConsumerUuid,
        request: &TransitionRequest,
        id: Option<&ActionId>,
    ) -> Result<(), TransitionError> {
        let context = &self.inner.context;
        // Subscribe before reading the record, so that a later deletion interrupts the download.
        let interrupt = self.subscribe_interrupt(uuid);
        let record = context
            .journal
            .guest(uuid)
            .await
            .map_err(PowerError::from)?;
        let record = record.ok_or(PowerError::NotFound { uuid })?;
        // A download may take long: fetch the image before taking the lock and changing the guest.
        if let TransitionDecision::Begin(overrides, _) =
            decide_transition(&record, request, id, context.resources.as_ref())?
        {
            let boot_source = overrides.rescue.as_ref().or(overrides.rebuilt.as_ref());
            if let Some(boot_source) =
                boot_source.filter(|_| *request != TransitionRequest::Unrescue)
            {
                let project = &record.request.spec().owner.project;
                let _tracked = self.inner.downloads.begin(uuid, &boot_source.plan);
                tokio::select! {
                    biased;
                    () = interrupt.interrupted() => return Err(TransitionError::Interrupted { uuid }),
                    fetched = context.resources.fetch(&boot_source.plan, Some(project)) => fetched?,
                }
            }
        }
        drop(interrupt);
        let (guard, record) = self.lock_record(uuid).await?;
        match decide_transition(&record, request, id, context.resources.as_ref())? {
            TransitionDecision::Already => return Ok(()),
            TransitionDecision::InProgress if id.is_none() || record.overrides.has_recorded(id) => {
            }
            TransitionDecision::InProgress => {
                let overrides = record.overrides.clone().with_action(id);
                let written = context
                    .journal
                    .record_overrides(uuid, &overrides, &[])
                    .await;
                written.map_err(PowerError::from)?;
            }
            TransitionDecision::Begin(overrides, power) => {
                let overrides = *overrides;
                self.check_new_boot_source(&record, &overrides).await?;
                self.begin(&record, &overrides, power).await?;
            }
        }
        let outcome = match self.run_to_goal(&guard, uuid).await {
            Ok(outcome) => outcome,
            Err(reason) => ReconcileOutcome::Blocked { reason },
        };
        self.record_outcome(uuid, &outcome);
        match outcome {
            ReconcileOutcome::Settled => Ok(()),
            ReconcileOutcome::Blocked { reason } => Err(TransitionError::Blocked {
                uuid,
                reason: Box::new(reason),
            }),
            ReconcileOutcome::Undone { .. }
            | ReconcileOutcome::Gone
            | ReconcileOutcome::AwaitsPorts
            | ReconcileOutcome::Interrupted => Err(TransitionError::Interrupted { uuid }),
        }
    }

    /// Checks that the guest may start from its new boot source, while it still runs from the old one.
    async fn check_new_boot_source(
        &self,
        record: &GuestRecord,
        overrides: &InstanceOverrides,
    ) -> Result<(), TransitionError> {
        let context = &self.inner.context;
        let devices = self.verify_bindings(record).await?;
        let then = GuestRecord {
            overrides: overrides.clone(),
            ..record.clone()
        };
        let request = then.present().map_err(PowerError::from)?;
        let spec = devices
            .attached_to(request.spec())
            .map_err(PowerError::from)?;
        let provision = Provision {
            spec: &spec,
            bound: &devices,
            mdevs: request.host_placement().mdevs(),
            disks: request.disks(),
            has_run_before: !record.ran_in().is_empty(),
            recreate: overrides.recreate_disks(),
        };
        if spec.machine != record.own().map_err(PowerError::from)?.spec().machine
            && let Some(build_context) = &self.build_context
        {
            let node = self.observe_node(build_context, request.node()).await;
            let node = node.map_err(|error| TransitionError::Observe(Box::new(error)))?;
            let uuid = request.uuid();
            check_machine(&spec.machine, &node)
                .map_err(|missing| TransitionError::Capability { uuid, missing })?;
        }
        context.allow(&spec).map_err(ResourceError::from)?;
        context
            .resources
            .check_present(&spec)
            .map_err(ResourceError::from)?;
        Ok(context.resources.check(provision).await?)
    }

    async fn begin(
        &self,
        record: &GuestRecord,
        overrides: &InstanceOverrides,
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
        if let Err(error) = context
            .journal
            .record_overrides(uuid, overrides, &steps)
            .await
        {
            context
                .journal
                .set_power(uuid, record.power)
                .await
                .map_err(PowerError::from)?;
            return Err(PowerError::from(error).into());
        }
        Ok(())
    }

    /// Changes what the guest's config drive says. The guest reads it at its next start. Repeating it is safe. A guest
    /// without a config drive stays without.
    ///
    /// Errors: the guest is unknown or busy, or the drive cannot be written. After the latter the change is journaled, and
    /// the same call completes it.
    pub async fn update_config_drive(
        &self,
        uuid: ConsumerUuid,
        change: ConfigDriveChange,
    ) -> Result<(), PowerError> {
        let context = &self.inner.context;
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        let present = record.present()?;
        let Some(drive) = present.disks().config_drive() else {
            return Ok(());
        };
        let resources = &context.resources;
        let changed = resources.change_config_drive(uuid, drive, change).await?;
        let overrides = record.overrides.clone().with_config_drive(changed.clone());
        context
            .journal
            .record_overrides(uuid, &overrides, &[])
            .await?;
        Ok(resources
            .rewrite_config_drive(present.spec(), &changed)
            .await?)
    }

    /// Writes a running guest's memory to disk and stops it.
    ///
    /// Errors: the guest has devices (their state cannot be saved) or is busy, or the hypervisor refuses.
    pub async fn suspend(
        &self,
        uuid: ConsumerUuid,
        id: Option<&ActionId>,
    ) -> Result<GuestPowerOutcome, PowerError> {
        let context = &self.inner.context;
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        if record.overrides.has_recorded(id) {
            return Ok(GuestPowerOutcome::Unchanged);
        }
        let suspending = |suspending| InstanceOverrides {
            suspending,
            ..record.overrides.clone()
        };
        // Journal the suspend before the desired state: otherwise a kill in between would stop the guest and lose its
        // memory.
        context
            .journal
            .record_overrides(uuid, &suspending(true), &[])
            .await?;
        context
            .journal
            .set_power(uuid, DesiredPower::ShutOff)
            .await?;
        let suspended = match context.driver.suspend(uuid).await {
            // It may still take effect; the sync loop checks.
            Err(error) if error.disposition() == Disposition::Retry => return Err(error.into()),
            Err(error) => {
                context.journal.set_power(uuid, record.power).await?;
                Err(error)
            }
            Ok(suspended) => Ok(suspended),
        };
        let overrides = suspending(false).with_action(id.filter(|_| suspended.is_ok()));
        context
            .journal
            .record_overrides(uuid, &overrides, &[])
            .await?;
        Ok(suspended?)
    }

    /// Always fails: a guest with devices cannot be migrated live, and live migration of other guests is not
    /// implemented.
    pub async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> Result<(), PowerError> {
        let context = &self.inner.context;
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        tracing::debug!(guest = %uuid, %destination, "live migration refused");
        if let Some(found) = context.on_host(uuid).await? {
            found.refuse_if_it_holds_devices(
                uuid,
                "be moved while it runs",
                "device state cannot be migrated",
            )?;
        }
        // The driver must not migrate it alone: without the destination's knowledge, this agent would start the guest
        // again here.
        Err(GuestError::Unsupported {
            driver: context.driver.name(),
            action: "move a guest to another host while it runs",
        }
        .into())
    }
}
