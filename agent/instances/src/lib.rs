//! The instances of this host: from a request to a running domain with exactly the devices that were bound for it, and back,
//! through kills, restarts and reboots.
//!
//! An instance passes the steps `bind -> check -> prepare -> define -> start`. Each step is written into the journal before it acts
//! and observes before it acts, so it can be repeated; a start of the agent continues from wherever a kill left off.
//!
//! | module | what it does |
//! |---|---|
//! | [`Guests`] | all instances of this agent: one task per instance at a time |
//! | `reconcile_instance` | drives one instance to its goal |
//! | `spawn`, `undo` | the steps forward and backward |
//! | `power` | start, stop, pause, reboot |
//! | [`transition`] | rescue, unrescue, rebuild |
//! | `power_sync` | decides what to do about the power state of an idle instance |
//! | `sync_loop` | synchronises all instances, at the start and periodically |
//! | [`mod@reconcile`] | compares journal, hypervisor, devices, requests and allocations |
//! | [`create`], [`fit`] | from a build to a request, placed on the host |
//! | [`binding_wait`], [`Accelerators`] | the wait for accelerator requests, without and with the service |
//! | [`external_events`] | dispatches the events of services |
//! | [`GuestResources`], [`HostResources`] | devices and disks |
//! | [`files`] | which files of the host an instance may have |

mod accelerators;
pub mod binding_wait;
#[cfg(any(test, feature = "testing"))]
pub mod build_bench;
mod changes;
pub mod console;
pub mod create;
pub mod external_events;
pub mod files;
pub mod fit;
mod guests;
mod host_resources;
mod image_downloads;
mod manager;
mod outcome;
mod power;
mod power_sync;
pub mod reconcile;
mod reconcile_instance;
mod resources;
mod spawn;
mod spawn_context;
#[cfg(any(test, feature = "testing"))]
pub mod stage;
mod sync_loop;
pub mod transition;
mod undo;

pub use accelerators::{Accelerators, BoundHere};
pub use binding_wait::{BindRefused, BindingWait};
pub use changes::GuestChanges;
pub use create::{BuildError, BuildOptions, Building, held, taken};
pub use external_events::{BindEvent, ExternalEvents};
pub use files::{AllowedFile, AllowedSpec, FileRefused, GuestFiles};
pub use guests::{Guests, GuestsError, GuestsParts};
pub use host_resources::HostResources;
pub use manager::{FindingObserver, GuestManager};
pub use outcome::{BlockedReason, HeldGuests, ReconcileOutcome};
pub use power::PowerError;
pub use resources::{GuestResources, Provision, ResourceError};
pub use spawn::SpawnError;
pub use sync_loop::SyncError;
pub use transition::{RescueSystem, TransitionError, TransitionRequest};
pub use undo::UndoError;

#[cfg(test)]
mod tests;
