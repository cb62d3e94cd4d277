//! The journal with fault injection.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_agent_journal::samples::guest;
use berth_agent_journal::{
    Accepted, Answer, BoundDevices, Claimed, Goal, GuestJournal, GuestRecord, GuestRequest,
    InstanceOverrides, ReleasedDevices, SpawnStep, StepRecord, StepState,
};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::DesiredPower;

use crate::fault_harness::devices::SimulatedDevices;
use crate::fault_harness::hypervisor::SimulatedHypervisor;
use crate::fault_harness::{FaultHarness, FaultPoint, InjectedFault, PlantedBug};
use crate::guests::Guests;

impl FaultHarness {
    /// The journal loses the record of the guest.
    pub async fn loses_the_journal_of(&self, number: u32) {
        self.journal.forget(guest(number)).await.unwrap();
    }

    /// A new agent whose call with this number, from 1, fails without an effect.
    pub fn guests_failing_at(&self, at: usize) -> Guests<SimulatedHypervisor, SimulatedDevices> {
        let point = FaultPoint { at, after: false };
        self.fault_at(Some(point), InjectedFault::Error);
        self.guests()
    }
}

/// The journal with fault injection at each call.
pub(crate) struct FaultJournal(pub FaultHarness);

impl FaultJournal {
    fn write<'a, T: Send + 'a>(&'a self, what: String, effect: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(self.0.inject(format!("store write {what}"), effect))
    }
}

impl GuestJournal for FaultJournal {
    fn path(&self) -> String {
        self.0.journal.path()
    }

    fn guests(&self) -> Answer<'_, Vec<Arc<GuestRecord>>> {
        Box::pin(
            self.0
                .inject("store read guests".to_owned(), self.0.journal.guests()),
        )
    }

    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<Arc<GuestRecord>>> {
        Box::pin(
            self.0
                .inject("store read guest".to_owned(), self.0.journal.guest(uuid)),
        )
    }

    fn accept<'a>(&'a self, request: &'a GuestRequest) -> Answer<'a, Accepted> {
        self.write("accept".to_owned(), self.0.journal.accept(request))
    }

    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Goal) -> Answer<'a, ()> {
        let goal = match course {
            Goal::Spawn => "spawn",
            Goal::Undo { .. } => "undo",
            Goal::Destroy => "destroy",
        };
        self.write(format!("turn {goal}"), self.0.journal.turn(uuid, course))
    }

    fn want(&self, uuid: ConsumerUuid, power: DesiredPower) -> Answer<'_, ()> {
        self.write("want".to_owned(), self.0.journal.want(uuid, power))
    }

    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: SpawnStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()> {
        let intent = matches!(record.state, StepState::Begun | StepState::Undoing);
        if intent && self.0.world().bug == Some(PlantedBug::ForgetsIntents) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let what = format!("{step} {}", record.state.as_str());
        self.write(what, self.0.journal.note(uuid, step, record))
    }

    fn live<'a>(
        &'a self,
        uuid: ConsumerUuid,
        life: &'a InstanceOverrides,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> Answer<'a, ()> {
        let steps_said = steps
            .iter()
            .map(|(step, record)| format!(" {step} {}", record.state.as_str()));
        let what = format!("live{}", steps_said.collect::<String>());
        self.write(what, self.0.journal.live(uuid, life, steps))
    }

    fn claim<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> Answer<'a, Claimed> {
        let effect = self.0.journal.claim(uuid, names, devices);
        self.write("bind done".to_owned(), effect)
    }

    fn give_back<'a>(
        &'a self,
        uuid: ConsumerUuid,
        released: &'a ReleasedDevices,
    ) -> Answer<'a, ()> {
        let effect = self.0.journal.give_back(uuid, released);
        self.write("prepare undone".to_owned(), effect)
    }

    fn disclaim(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        self.write("bind undoing".to_owned(), self.0.journal.disclaim(uuid))
    }

    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        self.write("forget".to_owned(), self.0.journal.forget(uuid))
    }
}
