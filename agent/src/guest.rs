//! Guests: from a request to a running domain with exactly the devices that were bound for it, and back, through kills,
//! restarts and reboots.
//!
//! A guest passes [`SpawnStep`]s. Each is written into the [`journal`] before it acts, looks before it acts, and so may be
//! done again; a start of the agent goes on from wherever a kill left off, forward or backward.
//!
//! | room | what it does |
//! |---|---|
//! | [`request`] | what the agent is asked for |
//! | [`bound_devices`] | the devices that accelerator requests are bound to |
//! | [`binding_wait`] | the wait for them, without clock or socket |
//! | [`external_events`] | what services tell, to whoever waits for it |
//! | [`journal`] | what is under way, on the disk |
//!
//! Callers: the admin API (create, delete, power), the service (start and reconcile), tests.

pub mod binding_wait;
pub mod bound_devices;
pub mod external_events;
pub mod journal;
pub mod request;
mod text;

pub use binding_wait::{BindRefused, BindingWait};
pub use bound_devices::{BoundDevice, BoundDevices, MdevParent};
pub use external_events::{BindEvent, ExternalEvents};
pub use journal::{
    Accepted, Claimed, Course, GuestJournal, GuestRecord, JournalError, SpawnStep, SqlJournal,
    StepRecord, StepState,
};
pub use request::{GuestRequest, GuestRequestError};

#[cfg(test)]
mod samples;
