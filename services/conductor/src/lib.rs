//! The conductor: boots guests on hosts that it selects, retries failed attempts, and deletes guests.
//!
//! A boot is a sequence of steps. Each step is recorded in the journal before it acts (ADR 8):
//!
//! ```text
//! claim (Placement) -> arqs (create accelerator requests) -> bind (to the claimed providers) -> build (host's agent)
//!        <------------------ undo in reverse order, then the next attempt with other candidates
//! ```
//!
//! If a step fails, the whole attempt is undone, and the next candidates are tried, at most
//! [`ConductorOptions::max_attempts`] times. Then the boot fails with the reasons of all attempts. A delete runs the
//! same undo. After a crash, the next start resumes or undoes each unfinished guest.
//!
//! | module | content |
//! |---|---|
//! | `request` | [`BootRequest`]: the validated request for a guest |
//! | `journal` | the goal of each guest, and the steps of its boot |
//! | `boot`, `undo` | the steps of a boot, and their reversal |
//! | `boot_context` | the journal and the service clients that boots share |
//! | `filter_scheduler` | host selection by filters and weighers |
//! | `cloud_hosts` | trait over the database of hosts, server groups and scheduling records |
//! | `plugins` | scheduler plugins: an operator's programs that filter and weigh hosts |
//! | `diagnosis` | why Placement has no candidate, found with relaxed queries |
//! | `metrics` | metrics of searches and boots |
//! | `headroom` | how many more guests of a flavor fit |
//! | `orphaned_arqs`, `stale_members`, `late_claims`, `late_ports` | garbage collection of accelerator requests, server-group members, and of claims and ports with an unknown result |
//! | `scan_interval`, `late_effects` | rate limit of these collectors, and the grace periods of guests |
//! | `agents` | lookup of a node's agent |
//! | `attestations` | trust of nodes, from an operator's file |
//! | `options`, `error` | options and errors of the conductor |
//! | `conductor` | [`Conductor`]: one reconcile task per guest |
//! | `interfaces` | attaches ports to active guests, and detaches them |
//! | `function_demand`, `port_claims` | the network functions of ports: what they need, and their claims when they are attached |
//! | `port_marks`, `port_profiles` | the descriptions of created ports, and the profiles of bound ones; pure |
//! | `port_refresh` | the interfaces of a guest, read again |
//! | `port_resources` | what ports need from Placement, and which providers serve it |
//! | `router` | the HTTP API, `/v1/guests` |
//!
//! Placement and the accelerator service may be Berth's or OpenStack's. Used by `cli` (`berth up`, `berth compute
//! serve`), `services/compute` and `tests`.

mod agents;
mod attestations;
mod boot;
mod boot_context;
mod cloud_hosts;
mod conductor;
mod diagnosis;
mod error;
mod filter_scheduler;
mod function_demand;
mod headroom;
mod interfaces;
pub mod journal;
mod late_claims;
mod late_effects;
mod late_ports;
mod metrics;
mod options;
mod orphaned_arqs;
mod plugins;
mod port_claims;
mod port_marks;
mod port_profiles;
mod port_refresh;
mod port_resources;
mod request;
mod router;
mod scan_interval;
mod stale_members;
mod undo;

pub use agents::{Agents, HostNode, SingleAgent};
pub use attestations::AttestationSource;
pub use berth_http::{serve_tcp, serve_unix};
pub use boot::{BootError, NoHostReason};
pub use cloud_hosts::{CloudHosts, CloudHostsFuture};
pub use conductor::{Conductor, ConductorParts, GuestRunOutcome};
pub use error::ConductorError;
pub use filter_scheduler::{FilterScheduler, RequestSpecError};
pub use interfaces::InterfaceError;
pub use metrics::METRICS;
pub use options::ConductorOptions;
pub use plugins::{ExtraSpecsError, HintError, PluginError, PluginOptions, Plugins};
pub use port_refresh::PortRefreshError;
pub use request::{BootRequest, BootRequestError};
pub use router::{ROUTES, metrics_router, router};
pub use undo::BootUndoError;
