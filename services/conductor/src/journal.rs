//! The journal: what each guest is meant to be, and how far its boot has come, on the disk before anything acts on it.
//!
//! [`BootJournal`] is the seam (tests put faults in front of it); [`SqlJournal`] is the file. A change that was answered is on
//! the disk; one that was not is there wholly or not at all.

mod error;
mod record;
mod rows;
mod schema;
mod sql;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use uuid::Uuid;

pub use error::{JournalError, UnreadableGuest};
pub(crate) use record::told_of;
pub use record::{
    BootRecord, BootStep, Chosen, Course, FailedAttempt, StepDetail, StepRecord, StepState, Then,
};
pub use sql::SqlJournal;

use crate::BootRequest;

/// What came of a call, when it comes.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;

/// What came of a request for a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is written down, and new.
    New,
    /// The same request is written down already.
    Same,
    /// Another request has this UUID.
    Other,
    /// The guest of this UUID is being deleted.
    Ending,
}

/// Guests as the journal has them: rows of one that cannot be read hold up no other.
#[derive(Debug, Default)]
pub struct GuestRecords {
    /// Those that can be read, by UUID.
    pub readable: Vec<BootRecord>,
    pub unreadable: Vec<UnreadableGuest>,
}

impl GuestRecords {
    /// All that there are, readable or not.
    pub fn uuids(&self) -> impl Iterator<Item = ConsumerUuid> + '_ {
        let readable = self.readable.iter().map(|record| record.request.uuid());
        // A row whose UUID is none is nobody's.
        let unreadable = self.unreadable.iter();
        readable.chain(unreadable.filter_map(|unreadable| unreadable.guest.parse().ok()))
    }

    /// Adds one; or why it cannot be read.
    pub(crate) fn push(&mut self, read: Result<BootRecord, UnreadableGuest>) {
        match read {
            Ok(record) => self.readable.push(record),
            Err(unreadable) => self.unreadable.push(unreadable),
        }
    }
}

/// The journal of one conductor's guests.
pub trait BootJournal: Send + Sync {
    /// Where it is, for messages.
    fn path(&self) -> String;

    /// The conductor whose journal it is: a name that is drawn where the journal begins, and lasts as long as it does.
    fn owner(&self) -> Uuid;

    fn guests(&self) -> Answer<'_, GuestRecords>;

    /// The UUIDs of those of which anything is still to be done ([`BootRecord::is_open`]), in their order. Nothing else of them is read:
    /// rows of one guest that cannot be read hold up no other.
    fn open_guests(&self) -> Answer<'_, Vec<ConsumerUuid>>;

    /// The accelerator requests of all guests, of every attempt.
    fn requests(&self) -> Answer<'_, BTreeSet<ArqUuid>>;

    /// One guest; none where it is not known.
    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<BootRecord>>;

    /// A guest of which not even the UUID can be read, where there is one: a guest that is not found may be that.
    fn nameless(&self) -> Answer<'_, Option<UnreadableGuest>>;

    /// Those of these guests that are known.
    fn guests_of<'a>(&'a self, uuids: &'a [ConsumerUuid]) -> Answer<'a, GuestRecords> {
        Box::pin(async move {
            let mut records = GuestRecords::default();
            for uuid in uuids {
                match self.guest(*uuid).await {
                    Ok(record) => records.readable.extend(record),
                    Err(JournalError::Unreadable(guest)) => records.unreadable.push(guest),
                    Err(error) => return Err(error),
                }
            }
            records.readable.sort_by_key(|record| record.request.uuid());
            Ok(records)
        })
    }

    /// Writes a request down, on the course of a boot.
    fn accept<'a>(&'a self, request: &'a BootRequest) -> Answer<'a, Accepted>;

    /// Where the guest is meant to go from now on. [`Course::Delete`] is final: nothing takes its place any more. What of the
    /// request may be secret is forgotten where no step needs it.
    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Course) -> Answer<'a, ()>;

    /// The attempt is taken back wholly, and the next begins: it failed so.
    fn again<'a>(&'a self, uuid: ConsumerUuid, failed: &'a FailedAttempt) -> Answer<'a, ()>;

    /// How far an attempt has come; an earlier word about the same step is replaced.
    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()>;

    /// Removes all that is known of the guest; it need not be there.
    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()>;

    /// Accelerator requests of this profile may have been made that nobody knows: their answer was lost.
    fn stray<'a>(&'a self, profile: &'a DeviceProfileName) -> Answer<'a, ()>;

    /// The profiles of which there may be such requests.
    fn strays(&self) -> Answer<'_, Vec<DeviceProfileName>>;

    /// There are none of this profile any more.
    fn no_stray<'a>(&'a self, profile: &'a DeviceProfileName) -> Answer<'a, ()>;

    /// A claim of this guest was asked for, or given back, and never answered: Placement may grant it, or forget it, later.
    fn late_claim(&self, guest: ConsumerUuid) -> Answer<'_, ()>;

    /// The guests of which there may be such claims, by UUID.
    fn late_claims(&self) -> Answer<'_, Vec<ConsumerUuid>>;

    /// None of this guest's comes any more.
    fn no_late_claim(&self, guest: ConsumerUuid) -> Answer<'_, ()>;

    /// Whether something can be written, without a change of what is known. A journal that never fails need not look.
    fn try_write(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests;
