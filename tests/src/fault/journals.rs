//! Fault injection for journals: those of an agent's guests and of a conductor's boots.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;

use berth_agent_journal::{self as agent, AcceptOutcome, JournalError, JournalFuture};
use berth_conductor::{BootRequest, journal as conductor};
use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use berth_virt::guest_spec::DesiredPower;

use super::stage::{AbandonedEffect, EffectAction};
use super::{FaultStage, busy};

/// The error of a disk that fails.
fn damaged(reason: &str) -> JournalError {
    JournalError::Damaged {
        path: "a journal".to_owned(),
        reason: reason.to_owned(),
    }
}

/// A statement: a function that makes the call, so that it can be repeated.
struct Statement<F>(F);

impl<'a, F, T> EffectAction for Statement<F>
where
    F: Fn() -> JournalFuture<'a, T> + Sync,
    T: Send,
{
    type Value = Result<T, JournalError>;

    async fn perform(&self) -> Self::Value {
        busy((self.0)()).await
    }

    fn outcome(&self, done: &Self::Value) -> EffectOutcome {
        match done {
            Ok(_) => EffectOutcome::Done(String::new()),
            Err(error) => EffectOutcome::Failed(error.to_string()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(damaged(match fault {
            Fault::DiskFull => "database or disk is full",
            _ => "the disk reports an input/output error",
        }))
    }

    fn result_if_failed_after(&self, _: Self::Value, _: Fault) -> Self::Value {
        Err(damaged("the disk reports an input/output error"))
    }

    fn detached(&self) -> AbandonedEffect {
        Box::pin(ready(()))
    }
}

/// A journal behind a stage's gate.
pub struct GatedJournal<J: ?Sized> {
    inner: Arc<J>,
    stage: FaultStage,
}

/// The journal of an agent's guests.
pub type GatedGuestJournal = GatedJournal<dyn agent::GuestJournal>;

/// The journal of a conductor's guests.
pub type GatedBootJournal = GatedJournal<dyn conductor::BootJournal>;

impl<J: ?Sized + Send + Sync> GatedJournal<J> {
    /// The journal behind the stage's gate.
    #[must_use]
    pub fn around(inner: Arc<J>, stage: &FaultStage) -> Self {
        let stage = stage.clone();
        Self { inner, stage }
    }

    fn perform<'a, T: Send + 'a>(
        &'a self,
        crossing: Effect,
        call: impl Fn() -> JournalFuture<'a, T> + Send + Sync + 'a,
    ) -> JournalFuture<'a, T> {
        Box::pin(async move { self.stage.perform(&crossing, &Statement(call)).await })
    }
}

fn read(operation: &'static str, subject: impl ToString) -> Effect {
    Effect::read(Boundary::Store, operation, subject.to_string())
}

fn write(operation: &'static str, subject: impl ToString) -> Effect {
    Effect::write(Boundary::Store, operation, subject.to_string())
}

impl agent::GuestJournal for GatedGuestJournal {
    fn path(&self) -> String {
        self.inner.path()
    }

    fn guests(&self) -> JournalFuture<'_, Vec<Arc<agent::GuestRecord>>> {
        self.perform(read("guests.db guests", ""), || self.inner.guests())
    }

    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<Arc<agent::GuestRecord>>> {
        self.perform(read("guests.db guest", uuid), move || {
            self.inner.guest(uuid)
        })
    }

    fn accept<'a>(&'a self, request: &'a agent::GuestRequest) -> JournalFuture<'a, AcceptOutcome> {
        let crossing = write("guests.db accept", request.uuid());
        self.perform(crossing, || self.inner.accept(request))
    }

    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a agent::Goal) -> JournalFuture<'a, ()> {
        self.perform(write("guests.db turn", uuid), move || {
            self.inner.set_goal(uuid, goal)
        })
    }

    fn set_power(&self, uuid: ConsumerUuid, power: DesiredPower) -> JournalFuture<'_, ()> {
        self.perform(write("guests.db want", uuid), move || {
            self.inner.set_power(uuid, power)
        })
    }

    fn record_overrides<'a>(
        &'a self,
        uuid: ConsumerUuid,
        overrides: &'a agent::InstanceOverrides,
        steps: &'a [(agent::SpawnStep, agent::StepRecord)],
    ) -> JournalFuture<'a, ()> {
        // The steps of one transaction are named like steps that are recorded alone.
        let step_texts = steps
            .iter()
            .map(|(step, record)| format!("{} {}", step, record.state));
        let what = step_texts.collect::<Vec<_>>().join(", ");
        self.perform(write("guests.db note", what), move || {
            self.inner.record_overrides(uuid, overrides, steps)
        })
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: agent::SpawnStep,
        record: &'a agent::StepRecord,
    ) -> JournalFuture<'a, ()> {
        let what = format!("{} {}", step, record.state);
        self.perform(write("guests.db note", what), move || {
            self.inner.record_step(uuid, step, record)
        })
    }

    fn claim_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a agent::BoundDevices,
    ) -> JournalFuture<'a, agent::DeviceClaim> {
        self.perform(write("guests.db claim", uuid), move || {
            self.inner.claim_devices(uuid, names, devices)
        })
    }

    fn claim_function<'a>(
        &'a self,
        request: &'a agent::GuestRequest,
        device: &'a str,
    ) -> JournalFuture<'a, agent::DeviceClaim> {
        self.perform(write("guests.db claim_function", device), move || {
            self.inner.claim_function(request, device)
        })
    }

    fn release_function<'a>(
        &'a self,
        request: &'a agent::GuestRequest,
        overrides: &'a agent::InstanceOverrides,
        device: &'a str,
        released: &'a agent::ReleasedDevices,
    ) -> JournalFuture<'a, ()> {
        self.perform(write("guests.db release_function", device), move || {
            let inner = &self.inner;
            inner.release_function(request, overrides, device, released)
        })
    }

    fn record_released_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        released: &'a agent::ReleasedDevices,
    ) -> JournalFuture<'a, ()> {
        self.perform(write("guests.db give_back", uuid), move || {
            self.inner.record_released_devices(uuid, released)
        })
    }

    fn drop_devices(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(write("guests.db disclaim", uuid), move || {
            self.inner.drop_devices(uuid)
        })
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(write("guests.db forget", uuid), move || {
            self.inner.delete_guest(uuid)
        })
    }
}

impl conductor::BootJournal for GatedBootJournal {
    fn path(&self) -> String {
        self.inner.path()
    }

    fn owner(&self) -> uuid::Uuid {
        self.inner.owner()
    }

    fn guests(&self) -> JournalFuture<'_, conductor::BootRecords> {
        self.perform(read("conductor.db guests", ""), || self.inner.guests())
    }

    fn unidentified_guest(&self) -> JournalFuture<'_, Option<conductor::UnreadableRecord>> {
        self.perform(read("conductor.db unidentified_guest", ""), || {
            self.inner.unidentified_guest()
        })
    }

    fn open_guests(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        self.perform(read("conductor.db open guests", ""), || {
            self.inner.open_guests()
        })
    }

    fn guests_with_interfaces(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        self.perform(read("conductor.db guests with interfaces", ""), || {
            self.inner.guests_with_interfaces()
        })
    }

    fn arqs(&self) -> JournalFuture<'_, BTreeSet<ArqUuid>> {
        self.perform(read("conductor.db requests", ""), || self.inner.arqs())
    }

    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<conductor::BootRecord>> {
        self.perform(read("conductor.db guest", uuid), move || {
            self.inner.guest(uuid)
        })
    }

    fn accept<'a>(&'a self, request: &'a BootRequest) -> JournalFuture<'a, AcceptOutcome> {
        let crossing = write("conductor.db accept", request.uuid());
        self.perform(crossing, || self.inner.accept(request))
    }

    fn set_goal<'a>(
        &'a self,
        uuid: ConsumerUuid,
        goal: &'a conductor::BootGoal,
    ) -> JournalFuture<'a, ()> {
        self.perform(write("conductor.db turn", uuid), move || {
            self.inner.set_goal(uuid, goal)
        })
    }

    fn begin_next_attempt<'a>(
        &'a self,
        uuid: ConsumerUuid,
        failed: &'a conductor::FailedAttempt,
    ) -> JournalFuture<'a, ()> {
        self.perform(write("conductor.db again", uuid), move || {
            self.inner.begin_next_attempt(uuid, failed)
        })
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: conductor::BootStep,
        record: &'a conductor::BootStepRecord,
    ) -> JournalFuture<'a, ()> {
        let what = format!("{step} {}", record.state);
        self.perform(write("conductor.db note", what), move || {
            self.inner.record_step(uuid, attempt, step, record)
        })
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(write("conductor.db forget", uuid), move || {
            self.inner.delete_guest(uuid)
        })
    }

    fn record_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()> {
        self.perform(write("conductor.db stray", ""), move || {
            self.inner.record_lost_arqs(profile)
        })
    }

    fn lost_arq_profiles(&self) -> JournalFuture<'_, Vec<DeviceProfileName>> {
        self.perform(read("conductor.db strays", ""), || {
            self.inner.lost_arq_profiles()
        })
    }

    fn clear_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()> {
        self.perform(write("conductor.db clear_lost_arqs", ""), move || {
            self.inner.clear_lost_arqs(profile)
        })
    }

    fn record_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(write("conductor.db late_claim", guest), move || {
            self.inner.record_late_claim(guest)
        })
    }

    fn late_claims(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        self.perform(read("conductor.db late_claims", ""), || {
            self.inner.late_claims()
        })
    }

    fn clear_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(write("conductor.db clear_late_claim", guest), move || {
            self.inner.clear_late_claim(guest)
        })
    }

    fn record_late_port<'a>(&'a self, late: &'a conductor::LatePort) -> JournalFuture<'a, ()> {
        self.perform(write("conductor.db late_port", late.guest), move || {
            self.inner.record_late_port(late)
        })
    }

    fn late_ports(&self) -> JournalFuture<'_, Vec<conductor::LatePort>> {
        self.perform(read("conductor.db late_ports", ""), || {
            self.inner.late_ports()
        })
    }

    fn clear_late_port(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(write("conductor.db clear_late_port", guest), move || {
            self.inner.clear_late_port(guest)
        })
    }
}
