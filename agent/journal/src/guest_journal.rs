//! The journal: what each guest is meant to be, and how far it has come, on the disk before anything acts on it.
//!
//! [`GuestJournal`] is the seam (tests put faults in front of it); [`SqlJournal`] is the file, of which each guest is read again only
//! after it was written (`known`). A change that was answered is on the disk; one that was not is there wholly or not at all. Who
//! holds which device is a row of its own with the device as its key, so that no history of guests can give one device to two of
//! them.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::DesiredPower;

use crate::bound_devices::BoundDevices;
use crate::error::JournalError;
use crate::overrides::InstanceOverrides;
use crate::record::{Goal, GuestRecord, SpawnStep, StepRecord};
use crate::register::Withheld;
use crate::released::ReleasedDevices;
use crate::request::GuestRequest;

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
    /// The guest of this UUID is on its way to nothing.
    Ending,
}

/// What came of a claim of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// They are the guest's, all of them.
    Ours,
    /// One of them is another guest's; none was claimed.
    Taken {
        /// The device, by its address or UUID.
        device: String,
        guest: ConsumerUuid,
    },
    /// One of the devices is withheld now, so none was claimed.
    Withheld {
        /// The device, by its address or UUID.
        device: String,
        why: Withheld,
    },
}

/// The journal of one agent's guests.
pub trait GuestJournal: Send + Sync {
    /// Where it is, for messages.
    fn path(&self) -> String;

    /// All guests, by UUID.
    fn guests(&self) -> Answer<'_, Vec<Arc<GuestRecord>>>;

    /// One guest; none where it is not known.
    fn guest(&self, uuid: ConsumerUuid) -> Answer<'_, Option<Arc<GuestRecord>>>;

    /// Writes a request down, on the course of a spawn.
    fn accept<'a>(&'a self, request: &'a GuestRequest) -> Answer<'a, Accepted>;

    /// Where the guest is meant to go from now on. [`Goal::Destroy`] is final: nothing takes its place any more.
    fn turn<'a>(&'a self, uuid: ConsumerUuid, course: &'a Goal) -> Answer<'a, ()>;

    /// Whether the guest should run.
    fn want(&self, uuid: ConsumerUuid, power: DesiredPower) -> Answer<'_, ()>;

    /// How far the guest has come; an earlier word about the same step is replaced.
    fn note<'a>(
        &'a self,
        uuid: ConsumerUuid,
        step: SpawnStep,
        record: &'a StepRecord,
    ) -> Answer<'a, ()>;

    /// What has become of the guest, and how far it is with it: all of it or nothing.
    fn live<'a>(
        &'a self,
        uuid: ConsumerUuid,
        life: &'a InstanceOverrides,
        steps: &'a [(SpawnStep, StepRecord)],
    ) -> Answer<'a, ()>;

    /// Gives the devices of these names to the guest, all that it has, and ends the step [`SpawnStep::Bind`] with those it
    /// has by its accelerator requests: all of it or nothing.
    fn claim<'a>(
        &'a self,
        uuid: ConsumerUuid,
        names: &'a BTreeSet<String>,
        devices: &'a BoundDevices,
    ) -> Answer<'a, Claimed>;

    /// Ends the undoing of the step [`SpawnStep::Prepare`] with what came of the guest's devices: those that must go to nobody are
    /// in quarantine, and the resets of the others count as those after the next release of their handles. All of it or nothing.
    fn give_back<'a>(&'a self, uuid: ConsumerUuid, released: &'a ReleasedDevices)
    -> Answer<'a, ()>;

    /// The guest holds no device any more, and the step [`SpawnStep::Bind`] is being undone.
    fn disclaim(&self, uuid: ConsumerUuid) -> Answer<'_, ()>;

    /// Removes all that is known of the guest; it need not be there.
    fn forget(&self, uuid: ConsumerUuid) -> Answer<'_, ()>;

    /// Whether something can be written, without a change of what is known. A journal that never fails need not look.
    fn try_write(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
