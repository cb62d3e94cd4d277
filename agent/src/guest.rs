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
//! | [`Accelerators`] | the same against the service: wait, unbind, delete |
//! | [`api`] | guests over the admin API |
//! | [`mod@compute_api`] | the part of Nova's API by which services tell |
//! | [`external_events`] | what services tell, to whoever waits for it |
//! | [`Guests`] | all guests of this agent: one journey per guest at a time |
//! | `spawn`, `undo` | the steps forward and backward |
//! | `power` | start, stop, pause, reboot |
//! | [`life`] | rescue, unrescue, rebuild |
//! | `coming` | the images that come for these |
//! | `look` | what is wanted of a guest against what it does: one table |
//! | `keep` | after a start of the agent or of the host, and ever after |
//! | [`mod@reconcile`] | journal, hypervisor, devices, requests and allocations, compared pair by pair |
//! | [`GuestResources`] | devices and disks, as the composition root provides them |
//! | [`HostResources`] | the same of this host: devices by the driver, disks by [`disks`] |
//! | [`build`] | from what a conductor asks for to a request, placed |
//! | [`files`] | which files of the host a guest may have |
//! | [`fit`] | where on the host a guest goes |
//! | [`journal`] | what is under way, on the disk |
//!
//! Callers: the admin API (create, delete, power), the service (start and reconcile), tests.

mod accelerators;
pub mod api;
pub mod binding_wait;
pub mod bound_devices;
pub mod build;
mod changes;
mod coming;
pub mod compute_api;
mod console;
pub mod disks;
pub mod external_events;
pub mod files;
pub mod fit;
mod guests;
mod host_resources;
pub mod journal;
mod journey;
mod keep;
mod manager;
pub mod life;
mod look;
mod outcome;
mod power;
pub mod reconcile;
pub mod request;
mod released;
mod resources;
mod spawn;
mod text;
mod undo;
mod way;

pub use accelerators::Accelerators;
pub use binding_wait::{BindRefused, BindingWait};
pub use bound_devices::{BoundDevice, BoundDevices, MdevParent};
pub use build::{BuildError, BuildOptions, Building};
pub(crate) use build::{held, taken};
pub use compute_api::{EventSources, compute_api};
pub use external_events::{BindEvent, ExternalEvents};
pub use files::{AllowedFile, AllowedSpec, FileRefused, GuestFiles};
pub use changes::GuestChanges;
pub use guests::{Guests, GuestsError, GuestsParts};
pub use outcome::{Held, HeldGuests, JourneyEnd};
pub use host_resources::HostResources;
pub use journal::{
    Accepted, Claimed, Course, Form, GuestJournal, GuestRecord, JournalError, Life, SpawnStep,
    SqlJournal, Stage, StepRecord, StepState, Turn, Turning,
};
pub use keep::KeepError;
pub use manager::{FindingObserver, KeptGuests};
pub use life::{LifeChange, LifeError, RescueSystem};
pub use power::PowerError;
pub use request::{GuestRequest, GuestRequestError};
pub use released::Released;
pub use resources::{GuestResources, Provision, ResourceError};
pub use spawn::SpawnError;
pub use undo::UndoError;

#[cfg(test)]
pub(crate) mod samples;

#[cfg(test)]
mod tests;
