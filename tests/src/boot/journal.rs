//! The journal behind the crossings.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_conductor::BootRequest;
use berth_conductor::journal::{
    Accepted, Answer, BootJournal, BootRecord, BootStep, Course, FailedAttempt, GuestRecords,
    JournalError, SqlJournal, StepRecord, StepState, UnreadableGuest,
};
use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use uuid::Uuid;

use super::Crossings;
use super::crossings::Fails;

impl<T> Fails for Result<T, JournalError> {
    fn failed() -> Self {
        Err(JournalError::Damaged {
            path: "conductor.db".to_owned(),
            reason: "the disk reports an input/output error".to_owned(),
        })
    }
}

pub(super) struct Seam {
    journal: Arc<SqlJournal>,
    crossings: Crossings,
}

impl Seam {
    pub(super) fn new(journal: Arc<SqlJournal>, crossings: Crossings) -> Self {
        Self { journal, crossings }
    }

    fn cross<'a, T: Send + 'a>(&'a self, what: String, effect: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(self.crossings.cross(format!("journal {what}"), effect))
    }
}

impl BootJournal for Seam {
    fn path(&self) -> String {
        self.journal.path()
    }

    fn owner(&self) -> Uuid {
        self.journal.owner()
    }

    fn guests(&self) -> Answer<'_, GuestRecords> {
        self.cross("guests".to_owned(), self.journal.guests())
    }

    fn nameless(&self) -> Answer<'_, Option<UnreadableGuest>> {
        self.cross("nameless".to_owned(), self.journal.nameless())
    }

    fn open_guests(&self) -> Answer<'_, Vec<ConsumerUuid>> {
        self.cross("open_guests".to_owned(), self.journal.open_guests())
    }

    fn requests(&self) -> Answer<'_, BTreeSet<ArqUuid>> {
        self.cross("requests".to_owned(), self.journal.requests())
    }

    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<BootRecord>> {
        self.cross("guest".to_owned(), self.journal.guest(uuid))
    }

    fn accept<'a>(&'a self, request: &'a BootRequest) -> Answer<'a, Accepted> {
        self.cross("accept".to_owned(), self.journal.accept(request))
    }

    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Course) -> Answer<'a, ()> {
        self.cross("turn".to_owned(), self.journal.turn(uuid, course))
    }

    fn again<'a>(&'a self, uuid: ConsumerUuid, failed: &'a FailedAttempt) -> Answer<'a, ()> {
        self.cross("again".to_owned(), self.journal.again(uuid, failed))
    }

    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()> {
        if record.state == StepState::Begun && self.crossings.forgets_intents() {
            return Box::pin(async { Ok(()) });
        }
        let what = format!("note {step} {}", record.state.as_str());
        self.cross(what, self.journal.note(uuid, attempt, step, record))
    }

    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()> {
        self.cross("forget".to_owned(), self.journal.forget(uuid))
    }

    fn stray<'a>(&'a self, profile: &'a DeviceProfileName) -> Answer<'a, ()> {
        self.cross("stray".to_owned(), self.journal.stray(profile))
    }

    fn strays(&self) -> Answer<'_, Vec<DeviceProfileName>> {
        self.cross("strays".to_owned(), self.journal.strays())
    }

    fn no_stray<'a>(&'a self, profile: &'a DeviceProfileName) -> Answer<'a, ()> {
        self.cross("no stray".to_owned(), self.journal.no_stray(profile))
    }

    fn late_claim(&self, guest: ConsumerUuid) -> Answer<'_, ()> {
        self.cross("late claim".to_owned(), self.journal.late_claim(guest))
    }

    fn late_claims(&self) -> Answer<'_, Vec<ConsumerUuid>> {
        self.cross("late claims".to_owned(), self.journal.late_claims())
    }

    fn no_late_claim(&self, guest: ConsumerUuid) -> Answer<'_, ()> {
        let none = self.journal.no_late_claim(guest);
        self.cross("no late claim".to_owned(), none)
    }
}
