//! Manages the instances of this host: drives each one from its request to a running guest with exactly the bound
//! devices, and back.
//!
//! ```text
//!             create, build                       delete
//!                  |                                |
//!                  v                                v
//! journal:    goal Spawn                       goal Destroy
//!                  |                                |
//!                  v                                v
//! steps:  bind -> check -> prepare -> define -> start     (and the same steps backward: undo)
//! ```
//!
//! Every step is written to the journal before it acts, and checks the current state before it acts. So every step can be
//! repeated, and after a kill or a reboot the agent continues where it stopped.
//!
//! | module | what it does |
//! |---|---|
//! | [`Guests`] | accepts requests, and runs one task per instance at a time |
//! | `reconcile_instance` | drives one instance to its goal |
//! | `spawn`, `undo` | the steps forward and backward |
//! | `power` | start, stop, pause, reboot |
//! | [`transition`] | rescue, unrescue, rebuild, suspend |
//! | `power_sync` | decides what to do about the power state of an idle instance |
//! | `sync_loop` | syncs all instances, at the start, periodically and after changes on the hypervisor |
//! | [`mod@reconcile`] | compares journal, hypervisor, devices, requests and allocations, and reports differences |
//! | [`create`], [`fit`] | from a build to a request with CPUs and devices of this host |
//! | [`binding_wait`], [`Accelerators`] | waits for accelerator requests: the state machine, and the client of the service |
//! | [`external_events`] | dispatches the events of services |
//! | [`GuestResources`], [`HostResources`] | prepares and releases disks, devices and ports |
//! | [`console`], [`ConsoleConnection`] | the log of a serial console, and connections to consoles |
//! | [`files`] | checks the host files that an instance uses |

mod accelerators;
pub mod binding_wait;
#[cfg(any(test, feature = "testing"))]
pub mod build_bench;
mod changes;
pub mod console;
pub mod create;
pub mod external_events;
#[cfg(any(test, feature = "testing"))]
pub mod fault_harness;
pub mod files;
pub mod fit;
mod guests;
mod host_ports;
mod host_resources;
mod image_downloads;
mod interfaces;
mod live_console;
mod manager;
mod outcome;
mod power;
mod power_sync;
pub mod reconcile;
mod reconcile_instance;
mod resources;
mod spawn;
mod spawn_context;
mod sync_loop;
pub mod transition;
mod undo;

pub use accelerators::{Accelerators, BoundArq};
pub use binding_wait::{BindingRefusal, BindingWait};
pub use changes::GuestChanges;
pub use create::{BuildContext, BuildError, BuildOptions, devices_in_use, host_usage};
pub use external_events::{BindEvent, ExternalEvents};
pub use files::{AllowedFile, AllowedSpec, FileRefusal, GuestFiles};
pub use guests::{Guests, GuestsError, GuestsParts};
pub use host_ports::{HostPorts, VifPlugging};
pub use host_resources::HostResources;
pub use live_console::{ConsoleConnection, OpenConsoleError};
pub use manager::{FindingObserver, GuestManager};
pub use outcome::{BlockedGuests, BlockedReason, ReconcileOutcome};
pub use power::PowerError;
pub use resources::{GuestResources, Provision, ResourceError};
pub use spawn::SpawnError;
pub use sync_loop::SyncError;
pub use transition::{MachineDescription, RescueSystem, TransitionError, TransitionRequest};
pub use undo::UndoError;

#[cfg(test)]
mod tests;
