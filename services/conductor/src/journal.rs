//! The conductor's journal: the goal of each guest and the steps of its boot, written to disk before anything acts on
//! them.
//!
//! [`BootJournal`] is the trait; [`SqlBootJournal`] is the SQLite file. Tests wrap the trait to inject faults. A
//! change that returned is on disk; an interrupted change is there completely or not at all.

mod record;
mod schema;
mod sql;

use std::collections::BTreeSet;

use berth_model::{ArqUuid, ConsumerUuid, DeviceProfileName};
use uuid::Uuid;

pub use berth_workflow::{AcceptOutcome, JournalError, JournalFuture, StepState, UnreadableRecord};
pub(crate) use record::user_fault_of_attempts;
pub use record::{
    AfterUndo, BootGoal, BootPort, BootRecord, BootStep, BootStepDetail, BootStepRecord,
    ChosenHost, FailedAttempt, LatePort, PortOrigin,
};
pub use sql::SqlBootJournal;

use crate::BootRequest;

/// Records of guests.
pub type BootRecords = berth_workflow::JournalRecords<BootRecord>;

/// The journal of one conductor.
pub trait BootJournal: Send + Sync {
    /// The location, for error messages.
    fn path(&self) -> String;

    /// UUID of the conductor, created with the journal and stored in it.
    fn owner(&self) -> Uuid;

    fn guests(&self) -> JournalFuture<'_, BootRecords>;

    /// UUIDs of the guests with unfinished goals ([`BootRecord::is_open`]), sorted. Reads nothing else, so that
    /// an unreadable record does not block the others.
    fn open_guests(&self) -> JournalFuture<'_, Vec<ConsumerUuid>>;

    /// UUIDs of the guests that have, or once had, interfaces from the network service, sorted.
    fn guests_with_interfaces(&self) -> JournalFuture<'_, Vec<ConsumerUuid>>;

    /// The accelerator requests of all guests and attempts.
    fn arqs(&self) -> JournalFuture<'_, BTreeSet<ArqUuid>>;

    /// The record of a guest.
    fn guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, Option<BootRecord>>;

    /// A record whose UUID is unreadable, if there is one. It may be the record of a guest that was not found.
    fn unidentified_guest(&self) -> JournalFuture<'_, Option<UnreadableRecord>>;

    /// The records of the given guests, without unknown ones.
    fn guests_of<'a>(&'a self, uuids: &'a [ConsumerUuid]) -> JournalFuture<'a, BootRecords> {
        Box::pin(async move {
            let mut records = BootRecords::default();
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

    /// Records a request with the goal [`BootGoal::Boot`].
    fn accept<'a>(&'a self, request: &'a BootRequest) -> JournalFuture<'a, AcceptOutcome>;

    /// Sets the goal of a guest. [`BootGoal::Delete`] is final: later goals are ignored. Deletes the config
    /// drive, which may contain secrets, when no step needs it any more.
    fn set_goal<'a>(&'a self, uuid: ConsumerUuid, goal: &'a BootGoal) -> JournalFuture<'a, ()>;

    /// Records that the current attempt failed and is undone, and begins the next one.
    fn begin_next_attempt<'a>(
        &'a self,
        uuid: ConsumerUuid,
        failed: &'a FailedAttempt,
    ) -> JournalFuture<'a, ()>;

    /// Records the state of a step; replaces its earlier state.
    fn record_step<'a>(
        &'a self,
        uuid: ConsumerUuid,
        attempt: u32,
        step: BootStep,
        record: &'a BootStepRecord,
    ) -> JournalFuture<'a, ()>;

    /// Deletes the record of a guest, if it exists.
    fn delete_guest(&self, uuid: ConsumerUuid) -> JournalFuture<'_, ()>;

    /// Records that ARQs of this profile may exist whose UUIDs are unknown, because the answer was lost.
    fn record_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()>;

    /// The profiles with such ARQs.
    fn lost_arq_profiles(&self) -> JournalFuture<'_, Vec<DeviceProfileName>>;

    /// Records that no such ARQs of this profile are left.
    fn clear_lost_arqs<'a>(&'a self, profile: &'a DeviceProfileName) -> JournalFuture<'a, ()>;

    /// Records that a claim or release of this guest was not answered, and may take effect later.
    fn record_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()>;

    /// The guests with such claims, sorted by UUID.
    fn late_claims(&self) -> JournalFuture<'_, Vec<ConsumerUuid>>;

    /// Records that no claim of this guest can take effect any more.
    fn clear_late_claim(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()>;

    /// Records that the creation of a port was not answered, and may take effect later.
    fn record_late_port<'a>(&'a self, late: &'a LatePort) -> JournalFuture<'a, ()>;

    /// The guests with such ports, sorted by UUID.
    fn late_ports(&self) -> JournalFuture<'_, Vec<LatePort>>;

    /// Records that no creation of a port for this guest can take effect any more.
    fn clear_late_port(&self, guest: ConsumerUuid) -> JournalFuture<'_, ()>;

    /// Tests whether the journal is writable, without a visible change. By default, it always is.
    fn try_write(&self) -> JournalFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests;
