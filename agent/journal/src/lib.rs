//! The agent's journal: one SQLite file with the goal and the steps of each guest, and a register of device
//! quarantines and resets. Each change is on disk before anything acts on it.
//!
//! [`GuestJournal`] is the trait, which tests wrap to inject faults; [`SqlJournal`] is the file (`guests.db`), a
//! [`berth_workflow::Journal`] of [`GuestRecord`]s with a cache for reads. [`DeviceRegister`] is the register, and
//! [`Register`] its content. It is in the same file, so that one transaction decides both "no guest has the device" and "the
//! device is being reset".

mod bound_devices;
mod cache;
mod device_name;
mod guest_journal;
mod host_placement;
mod overrides;
mod record;
mod register;
mod released;
mod request;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod schema;
mod sql_journal;

pub use berth_workflow::{AcceptOutcome, JournalError, JournalFuture, StepRecord, StepState};
pub use bound_devices::{BoundDevice, BoundDevices, BoundMdevParent, DuplicateBinding, NoDevice};
pub use device_name::{NamedDevice, name_of_handle, names};
pub use guest_journal::{DeviceClaim, GuestJournal};
pub use host_placement::{BuildDigest, HostPlacement, NetworkFunction, SchedulingFacts};
pub use overrides::{
    BootSource, InstanceOverrides, PendingTransition, TransitionKind, TransitionPhase,
};
pub use record::{Blame, Goal, GuestRecord, SpawnStep};
pub use register::{
    ActivePartition, DeviceRegister, PartitionRecord, Quarantine, QuarantineAfterReset,
    QuarantinedBy, Register, ResetEnd, ResetStart, WithheldReason, release_statements,
};
pub use released::ReleasedDevices;
pub use request::{GuestRequest, GuestRequestError};
pub use sql_journal::SqlJournal;

#[cfg(test)]
mod tests;
