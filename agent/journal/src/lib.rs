//! The agent's journal: one SQLite file with what each instance is meant to be, how far it has come, and what is recorded of
//! devices. A change is on the disk before anything acts on it.
//!
//! [`GuestJournal`] is the interface, and the fault injection point of tests; [`SqlJournal`] is the file. [`DeviceRegister`] holds
//! quarantines and resets in the same file, so "no instance has the device" and "the device is being reset" are decided in one
//! transaction.

mod bound_devices;
mod cache;
mod device_name;
mod error;
mod guest_journal;
mod host_placement;
mod overrides;
mod record;
mod register;
mod released;
mod request;
mod rows;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod schema;
mod sql_journal;

pub use bound_devices::{BoundDevice, BoundDevices, BoundTwice, MdevParent, NoDevice};
pub use device_name::{NamedDevice, name_of_handle, names};
pub use error::{JournalError, JournalFailure};
pub use guest_journal::{Accepted, Answer, Claimed, GuestJournal};
pub use host_placement::{BuildDigest, HostPlacement, SchedulingFacts};
pub use overrides::{
    BootSource, InstanceOverrides, PendingTransition, TransitionKind, TransitionPhase,
};
pub use record::{Blame, Goal, GuestRecord, SpawnStep, StepRecord, StepState};
pub use register::given_back;
pub use register::{
    Cleaning, CleaningOutcome, DeviceRegister, Quarantine, QuarantineStays, QuarantinedBy,
    Register, Withheld,
};
pub use released::ReleasedDevices;
pub use request::{GuestRequest, GuestRequestError};
pub use sql_journal::SqlJournal;

#[cfg(test)]
mod tests;
