//! The conductor's boot journal, with fault injection.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_conductor::BootRequest;
use berth_conductor::journal::{
    AcceptOutcome, BootGoal, BootJournal, BootRecord, BootRecords, BootStep, BootStepRecord,
    FailedAttempt, JournalError, JournalFuture, LatePort, SqlBootJournal, StepState,
    UnreadableRecord,
};
use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use uuid::Uuid;

use super::ConductorEffects;
use super::effects::FaultAnswer;

impl<T> FaultAnswer for Result<T, JournalError> {
    fn failed() -> Self {
        Err(JournalError::Damaged {
            path: "conductor.db".to_owned(),
            reason: "the disk reports an input/output error".to_owned(),
        })
    }
}

pub(super) struct FaultyBootJournal {
    journal: Arc<SqlBootJournal>,
    effects: ConductorEffects,
}

impl FaultyBootJournal {
    pub(super) fn new(journal: Arc<SqlBootJournal>, effects: ConductorEffects) -> Self {
        Self { journal, effects }
    }

    fn perform<'a, T: Send + 'a>(
        &'a self,
        what: String,
        effect: JournalFuture<'a, T>,
    ) -> JournalFuture<'a, T> {
        Box::pin(self.effects.perform(format!("journal {what}"), effect))
    }
}

impl BootJournal for FaultyBootJournal {
    fn path(&self) -> String {
        self.journal.path()
    }

    fn owner(&self) -> Uuid {
        self.journal.owner()
    }

    fn guests(&self) -> JournalFuture<'_, BootRecords> {
        self.perform("guests".to_owned(), self.journal.guests())
    }

    fn unidentified_guest(&self) -> JournalFuture<'_, Option<UnreadableRecord>> {
        self.perform(
            "unidentified_guest".to_owned(),
            self.journal.unidentified_guest(),
        )
    }

    fn open_guests(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        self.perform("open_guests".to_owned(), self.journal.open_guests())
    }

    fn guests_with_interfaces(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        self.perform(
            "guests_with_interfaces".to_owned(),
            self.journal.guests_with_interfaces(),
        )
    }

    fn arqs(&self) -> JournalFuture<'_, BTreeSet<ArqUuid>> {
        self.perform("requests".to_owned(), self.journal.arqs())
    }

    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<BootRecord>> {
        self.perform("guest".to_owned(), self.journal.guest(uuid))
    }

    fn accept<'a>(&'a self, request: &'a BootRequest) -> JournalFuture<'a, AcceptOutcome> {
        self.perform("accept".to_owned(), self.journal.accept(request))
    }

    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a BootGoal) -> JournalFuture<'a, ()> {
        self.perform("turn".to_owned(), self.journal.set_goal(uuid, goal))
    }

    fn begin_next_attempt<'a>(
        &'a self,
        uuid: ConsumerUuid,
        failed: &'a FailedAttempt,
    ) -> JournalFuture<'a, ()> {
        self.perform(
            "again".to_owned(),
            self.journal.begin_next_attempt(uuid, failed),
        )
    }

    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a BootStepRecord,
    ) -> JournalFuture<'a, ()> {
        if record.state == StepState::Begun && self.effects.forgets_intents() {
            return Box::pin(async { Ok(()) });
        }
        let what = format!("note {step} {}", record.state);
        self.perform(what, self.journal.record_step(uuid, attempt, step, record))
    }

    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform("forget".to_owned(), self.journal.delete_guest(uuid))
    }

    fn record_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()> {
        self.perform("stray".to_owned(), self.journal.record_lost_arqs(profile))
    }

    fn lost_arq_profiles(&self) -> JournalFuture<'_, Vec<DeviceProfileName>> {
        self.perform("strays".to_owned(), self.journal.lost_arq_profiles())
    }

    fn clear_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()> {
        self.perform("no stray".to_owned(), self.journal.clear_lost_arqs(profile))
    }

    fn record_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(
            "late claim".to_owned(),
            self.journal.record_late_claim(guest),
        )
    }

    fn late_claims(&self) -> JournalFuture<'_, Vec<ConsumerUuid>> {
        self.perform("late claims".to_owned(), self.journal.late_claims())
    }

    fn clear_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        let none = self.journal.clear_late_claim(guest);
        self.perform("no late claim".to_owned(), none)
    }

    fn record_late_port<'a>(&'a self, late: &'a LatePort) -> JournalFuture<'a, ()> {
        self.perform("late port".to_owned(), self.journal.record_late_port(late))
    }

    fn late_ports(&self) -> JournalFuture<'_, Vec<LatePort>> {
        self.perform("late ports".to_owned(), self.journal.late_ports())
    }

    fn clear_late_port(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()> {
        self.perform(
            "no late port".to_owned(),
            self.journal.clear_late_port(guest),
        )
    }
}
