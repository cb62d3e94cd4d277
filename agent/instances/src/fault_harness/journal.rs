//! The journal with fault injection.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_agent_journal::samples::guest;
use berth_agent_journal::{
    AcceptOutcome, BoundDevices, DeviceClaim, Goal, GuestJournal, GuestRecord, GuestRequest,
    InstanceOverrides, JournalFuture, ReleasedDevices, SpawnStep, StepRecord, StepState,
};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::DesiredPower;

use crate::fault_harness::hypervisor::SimulatedHypervisor;
use crate::fault_harness::resources::SimulatedResources;
use crate::fault_harness::{FaultHarness, FaultPoint, InjectedFault, PlantedBug};
use crate::guests::Guests;

impl FaultHarness {
    /// The journal loses the record of the guest.
    pub async fn loses_the_journal_of(&self, number: u32) {
        self.journal.delete_guest(guest(number)).await.unwrap();
    }

    /// A new agent whose call with this number, from 1, fails without an effect.
    pub fn guests_failing_at(&self, at: usize) -> Guests<SimulatedHypervisor, SimulatedResources> {
        let point = FaultPoint { at, after: false };
        self.fault_at(Some(point), InjectedFault::Error);
        self.guests()
    }
}

/// The journal with fault injection at each call.
pub(crate) struct FaultJournal(pub FaultHarness);

impl FaultJournal {
    fn write<'a, T: Send + 'a>(
        &'a self,
        what: String,
        effect: JournalFuture<'a, T>,
    ) -> JournalFuture<'a, T> {
        Box::pin(self.0.inject(format!("store write {what}"), effect))
    }
}

impl GuestJournal for FaultJournal {
    fn path(&self) -> String {
        self.0.journal.path()
    }

    fn guests(&self) -> JournalFuture<'_, Vec<Arc<GuestRecord>>> {
        Box::pin(
            self.0
                .inject("store read guests".to_owned(), self.0.journal.guests()),
        )
    }

    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<Arc<GuestRecord>>> {
        Box::pin(
            self.0
                .inject("store read guest".to_owned(), self.0.journal.guest(uuid)),
        )
    }

    fn accept<'a>(&'a self, request: &'a GuestRequest) -> JournalFuture<'a, AcceptOutcome> {
        self.write("accept".to_owned(), self.0.journal.accept(request))
    }

    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a Goal) -> JournalFuture<'a, ()> {
        let name = match goal {
            Goal::Spawn => "spawn",
            Goal::Undo { .. } => "undo",
            Goal::Destroy => "destroy",
        };
        self.write(format!("turn {name}"), self.0.journal.set_goal(uuid, goal))
    }

    fn set_power(&self, uuid: ConsumerUuid, power: DesiredPower) -> JournalFuture<'_, ()> {
        self.write("want".to_owned(), self.0.journal.set_power(uuid, power))
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: SpawnStep,
        record: &'a StepRecord,
    ) -> JournalFuture<'a, ()> {
        let intent = matches!(record.state, StepState::Begun | StepState::Undoing);
        if intent && self.0.world().bug == Some(PlantedBug::ForgetsIntents) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let what = format!("{step} {}", record.state);
        self.write(what, self.0.journal.record_step(uuid, step, record))
    }

    fn record_overrides<'a>(
        &'a self,
        uuid: ConsumerUuid,
        overrides: &'a InstanceOverrides,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> JournalFuture<'a, ()> {
        let step_texts = steps
            .iter()
            .map(|(step, record)| format!(" {step} {}", record.state));
        let what = format!("live{}", step_texts.collect::<String>());
        self.write(
            what,
            self.0.journal.record_overrides(uuid, overrides, steps),
        )
    }

    fn claim_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> JournalFuture<'a, DeviceClaim> {
        let effect = self.0.journal.claim_devices(uuid, names, devices);
        self.write("bind done".to_owned(), effect)
    }

    fn claim_function<'a>(
        &'a self,
        request: &'a GuestRequest,
        device: &'a str,
    ) -> JournalFuture<'a, DeviceClaim> {
        let effect = self.0.journal.claim_function(request, device);
        self.write("claim_function".to_owned(), effect)
    }

    fn release_function<'a>(
        &'a self,
        request: &'a GuestRequest,
        overrides: &'a InstanceOverrides,
        device: &'a str,
        released: &'a ReleasedDevices,
    ) -> JournalFuture<'a, ()> {
        let journal = &self.0.journal;
        let effect = journal.release_function(request, overrides, device, released);
        self.write("release_function".to_owned(), effect)
    }

    fn record_released_devices<'a>(
        &'a self,
        uuid: ConsumerUuid,
        released: &'a ReleasedDevices,
    ) -> JournalFuture<'a, ()> {
        let effect = self.0.journal.record_released_devices(uuid, released);
        self.write("prepare undone".to_owned(), effect)
    }

    fn drop_devices(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.write("bind undoing".to_owned(), self.0.journal.drop_devices(uuid))
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.write("forget".to_owned(), self.0.journal.delete_guest(uuid))
    }
}
