//! Power actions: start, stop, pause, unpause and reboot of an instance ([`Guests::power_once`]).
//!
//! The desired power state is written to the journal first, then the action runs. A start or hard reboot repeats the checks of
//! a spawn: the accelerator requests must still be bound to the instance's devices, and each device must be healthy.

use std::sync::Arc;
use std::time::Duration;

use berth_agent_images::RecreateDisks;
use berth_agent_journal::{
    BoundDevices, Goal, GuestRecord, GuestRequest, GuestRequestError, InstanceOverrides,
    JournalError, SpawnStep, StepRecord, StepState,
};
use berth_keyed_tasks::KeyGuard;
use berth_model::{ConsumerUuid, Disposition, PciAddress};
use berth_virt::guest_spec::{DesiredPower, GuestSpec, GuestSpecError};
use berth_virt::{
    GuestError, GuestPowerOutcome, GuestSpawnOutcome, PowerAction, PowerState, VirtDriver,
};
use berth_wire::conductor::FunctionVnicType;
use berth_wire::guest::ActionId;
use tokio::time::timeout;
use uuid::Uuid;

use crate::binding_wait::BindingRefusal;
use crate::create::BuildError;
use crate::guests::Guests;
use crate::resources::{GuestResources, Provision, ResourceError};

/// How long an action waits for the running task of the instance. A task that finds nothing to do ends at once.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a power action, or a change of the instance's interfaces, failed. The state is unchanged, unless the hypervisor did not
/// answer.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    #[error("there is no guest {uuid} on this host")]
    NotFound { uuid: ConsumerUuid },
    /// A spawn, undo, deletion or other power action of the guest is running.
    #[error("guest {uuid} is busy ({operation}); retry when that has finished")]
    Busy {
        uuid: ConsumerUuid,
        operation: &'static str,
    },
    /// The accelerator requests are no longer bound to the guest's devices.
    #[error("the guest cannot be started: {0}")]
    Bind(#[from] BindingRefusal),
    /// A device must not be used now.
    #[error("the guest cannot be started: {0}")]
    Resource(#[from] ResourceError),
    /// A port is not bound to the network function that was selected for it.
    #[error(
        "port {port} is bound to {}, and this host selected {} for it",
        function_or_none(found),
        function_or_none(selected)
    )]
    WrongFunction {
        port: Uuid,
        found: Option<PciAddress>,
        selected: Option<PciAddress>,
    },
    /// A port needs another kind of function than the one that was selected for it.
    #[error(
        "port {port} is a {} port (binding:vnic_type), and this host selected a function for a {} port; expected \
         binding:vnic_type {}", found.as_str(), selected.as_str(), selected.as_str()
    )]
    OtherFunctionKind {
        port: Uuid,
        found: FunctionVnicType,
        selected: FunctionVnicType,
    },
    /// The guest has no such port.
    #[error("port {port} is not one of the guest's ports")]
    OtherPort { port: Uuid },
    /// Not all ports of the guest are there.
    #[error("port {port} of the guest is missing; expected all of its ports")]
    MissingPort { port: Uuid },
    /// A port that is a whole network card can be neither attached nor detached.
    #[error(
        "port {port} is a whole network card (direct-physical): it comes with the request that creates its guest, and stays until \
         the guest is deleted"
    )]
    PhysicalPort { port: Uuid },
    /// No network function can be selected for a port.
    #[error(transparent)]
    Function(Box<BuildError>),
    /// The guest cannot have this interface next to its others.
    #[error("the interface cannot be attached: {0}")]
    Interface(#[source] GuestSpecError),
    #[error("the record of the guest in the journal is invalid: {0}")]
    Spec(#[from] GuestSpecError),
    #[error("the record of the guest in the journal is invalid: {0}")]
    BootSource(#[from] GuestRequestError),
    #[error(transparent)]
    Driver(#[from] GuestError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<BuildError> for PowerError {
    fn from(error: BuildError) -> Self {
        Self::Function(Box::new(error))
    }
}

fn function_or_none(function: &Option<PciAddress>) -> String {
    match function {
        Some(address) => format!("PCI function {address}"),
        None => "no function".to_owned(),
    }
}

/// The desired power state after an action.
fn desired_power_after(action: PowerAction, now: DesiredPower) -> DesiredPower {
    match action {
        PowerAction::Start | PowerAction::Unpause => DesiredPower::Running,
        PowerAction::Stop { .. } => DesiredPower::ShutOff,
        PowerAction::Pause => DesiredPower::Paused,
        PowerAction::SoftReboot => now,
        PowerAction::HardReboot => DesiredPower::Running,
    }
}

/// Fails if an operation of the instance is in progress.
pub(super) fn ensure_idle(record: &GuestRecord) -> Result<(), PowerError> {
    let operation = match record.goal {
        Goal::Spawn if record.state(SpawnStep::Start) == Some(StepState::Done) => {
            return Ok(());
        }
        Goal::Spawn => {
            let transition = record.overrides.transition.as_ref();
            transition.map_or("spawn", |transition| transition.kind.as_str())
        }
        Goal::Undo { .. } => "undo",
        Goal::Destroy => "destroy",
    };
    let uuid = record.request.uuid();
    Err(PowerError::Busy { uuid, operation })
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Runs a power action. A desired state that is in the journal is reached even if the agent is killed.
    ///
    /// Errors: the guest is unknown or busy, its devices are not bound to it any longer, or the hypervisor refuses. The power state
    /// is then unchanged; if a hard reboot had already stopped the guest, a reconcile task starts it again. If the hypervisor did not
    /// answer, the action may still take effect, and a reconcile task continues a start.
    pub async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, PowerError> {
        self.power_once(uuid, action, None).await
    }

    /// Like [`Guests::power`], but idempotent: an action with the ID of the last completed action is not repeated.
    pub async fn power_once(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
        id: Option<&ActionId>,
    ) -> Result<GuestPowerOutcome, PowerError> {
        let context = &self.inner.context;
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        if record.overrides.has_recorded(id) {
            return Ok(GuestPowerOutcome::Unchanged);
        }
        let plan = match action {
            PowerAction::Start | PowerAction::HardReboot => {
                Some(self.check_startable(&record).await?)
            }
            _ => None,
        };
        let overrides = InstanceOverrides {
            suspending: false,
            ..record.overrides.clone()
        };
        let wanted = desired_power_after(action, record.power);
        let start = |state, detail: &str| {
            let detail = detail.to_owned();
            [(SpawnStep::Start, StepRecord { state, detail })]
        };
        // Mark the start as begun: after a kill the spawn continues, and the guest does not look as if it had shut
        // itself down.
        let starts = wanted == DesiredPower::Running && action != PowerAction::SoftReboot;
        if starts {
            let begun = start(StepState::Begun, record.ran_in());
            context
                .journal
                .record_overrides(uuid, &overrides, &begun)
                .await?;
        } else if record.overrides.suspending {
            context
                .journal
                .record_overrides(uuid, &overrides, &[])
                .await?;
        }
        context.journal.set_power(uuid, wanted).await?;
        let acted = async {
            if let Some(plan) = &plan {
                context.resources.prepare(plan.provision(&record)).await?;
                if self.starts_from_spec(&plan.spec, action).await? {
                    return self.start_from_spec(plan, action).await;
                }
            }
            Ok(context.driver.power(uuid, action).await?)
        };
        let powered = match acted.await {
            Ok(powered) => powered,
            Err(PowerError::Driver(error)) if error.disposition() == Disposition::Retry => {
                if starts {
                    self.spawn_reconcile(uuid);
                }
                return Err(error.into());
            }
            // The reboot stopped the guest and could not start it. A reconcile task starts it again, as after a host
            // reboot.
            Err(error) if action == PowerAction::HardReboot && self.is_off(uuid).await => {
                if id.is_some() {
                    // The reboot counts as done: a retry must not stop the guest again.
                    context
                        .journal
                        .record_overrides(uuid, &overrides.with_action(id), &[])
                        .await?;
                }
                self.spawn_reconcile(uuid);
                return Err(error);
            }
            Err(error) => {
                if starts {
                    let before = start(StepState::Done, record.ran_in());
                    context
                        .journal
                        .record_overrides(uuid, &overrides, &before)
                        .await?;
                }
                context.journal.set_power(uuid, record.power).await?;
                return Err(error);
            }
        };
        if wanted == DesiredPower::Running {
            // The guest runs in the current boot of the host.
            let done = start(StepState::Done, &context.boot_id);
            let overrides = InstanceOverrides {
                ended: false,
                ..overrides
            };
            context
                .journal
                .record_overrides(uuid, &overrides.with_action(id), &done)
                .await?;
        } else if id.is_some() {
            context
                .journal
                .record_overrides(uuid, &overrides.with_action(id), &[])
                .await?;
        }
        Ok(powered)
    }

    /// Whether the driver must start the guest from its spec. It does so for a guest that is off, and for a hard reboot: the
    /// pending changes of a running guest are not visible. The driver then redefines the domain if it differs from the spec,
    /// because someone changed it on the hypervisor, or because a newer Berth defines more, such as a VNC console.
    async fn starts_from_spec(
        &self,
        spec: &GuestSpec,
        action: PowerAction,
    ) -> Result<bool, GuestError> {
        let found = self.inner.context.on_host(spec.uuid).await?;
        // A guest that is not ours, or that has other devices, is not redefined.
        let found = found.filter(|found| found.difference(spec).is_none());
        let found = found.filter(|found| found.hardware.is_some());
        Ok(found.is_some_and(|found| {
            action == PowerAction::HardReboot || found.state == PowerState::ShutOff
        }))
    }

    /// Starts a guest from its spec, after stopping it for a hard reboot.
    async fn start_from_spec(
        &self,
        plan: &StartPlan,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, PowerError> {
        let context = &self.inner.context;
        if action == PowerAction::HardReboot {
            let grace = Duration::ZERO;
            let stop = PowerAction::Stop { grace };
            let _ = context.driver.power(plan.spec.uuid, stop).await?;
        }
        let spec = context.allow(&plan.spec).map_err(ResourceError::from)?;
        Ok(match context.spawn(&spec).await? {
            GuestSpawnOutcome::Spawned => GuestPowerOutcome::Done,
            GuestSpawnOutcome::AlreadyThere => GuestPowerOutcome::Unchanged,
        })
    }

    /// Whether the hypervisor reports the guest as shut off, or does not answer.
    async fn is_off(&self, uuid: ConsumerUuid) -> bool {
        let found = self.inner.context.on_host(uuid).await;
        !found.is_ok_and(|found| found.is_some_and(|guest| guest.state != PowerState::ShutOff))
    }

    /// Locks the instance and reads its record.
    pub(super) async fn lock_record(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<(KeyGuard<ConsumerUuid>, GuestRecord), PowerError> {
        let context = &self.inner.context;
        // Do not wait for the lock of an unknown guest.
        if context.journal.guest(uuid).await?.is_none() {
            return Err(PowerError::NotFound { uuid });
        }
        let Ok(guard) = timeout(LOCK_TIMEOUT, self.lock(uuid)).await else {
            let operation = "another operation";
            return Err(PowerError::Busy { uuid, operation });
        };
        let record = context.journal.guest(uuid).await?;
        let record = record.ok_or(PowerError::NotFound { uuid })?;
        Ok((guard, Arc::unwrap_or_clone(record)))
    }

    /// The guest's devices. Fails if its accelerator requests are no longer bound to them.
    pub(super) async fn verify_bindings(
        &self,
        record: &GuestRecord,
    ) -> Result<BoundDevices, PowerError> {
        let devices = record.devices.clone().unwrap_or_default();
        let accelerators = &self.inner.context.accelerators;
        let now = accelerators.bound_now(&record.request).await?;
        if !now.has_same_bindings(&devices) {
            let before = devices;
            return Err(BindingRefusal::Changed { before, now }.into());
        }
        Ok(devices)
    }

    /// Checks that the guest may use its devices now, as before its first start.
    async fn check_startable(&self, record: &GuestRecord) -> Result<StartPlan, PowerError> {
        let context = &self.inner.context;
        let devices = self.verify_bindings(record).await?;
        let request = record.present()?;
        let mut spec = devices.attached_to(request.spec())?;
        spec.power = DesiredPower::Running;
        let plan = StartPlan {
            devices,
            request,
            spec,
        };
        // An earlier release may have defined the guest without this check.
        context.allow(&plan.spec).map_err(ResourceError::from)?;
        context.resources.check(plan.provision(record)).await?;
        Ok(plan)
    }
}

/// The devices, request and spec of a guest that may be started.
struct StartPlan {
    devices: BoundDevices,
    request: GuestRequest,
    spec: GuestSpec,
}

impl StartPlan {
    fn provision(&self, record: &GuestRecord) -> Provision<'_> {
        Provision {
            spec: &self.spec,
            bound: &self.devices,
            mdevs: self.request.host_placement().mdevs(),
            disks: self.request.disks(),
            has_run_before: !record.ran_in().is_empty(),
            recreate: RecreateDisks::None,
        }
    }
}
