//! The conductor: from a request to a running guest, on whichever host is right for it.
//!
//! A guest's boot is a row of steps, each written down before it acts (ADR 8): the **claim** of an allocation candidate, its
//! accelerator requests (**arqs**) made of the device profile, their **bind** to the providers that the claim's mappings name,
//! and the **build** at the host's agent. A step that fails has the whole attempt taken back, backwards over the journal's rows,
//! and the next candidate is tried, at most [`ConductorOptions::max_attempts`] times; only then the request fails, with the
//! reasons of each attempt. A delete is the same way back. Whatever dies in between, the next start goes on with it, or undoes it.
//!
//! | room | noun |
//! |---|---|
//! | `request` | what is asked for, checked |
//! | `journal` | what each guest is meant to be, and how far it is |
//! | `boot`, `undo` | the steps, and the way back |
//! | `destinations` | who says which host comes first: filters and weighers |
//! | `cloud_hosts` | what is read and written of hosts' states, server groups and past decisions |
//! | `plugins` | the scheduler's plugins: programs of the operator's, asked before filters and weighers |
//! | `diagnosis` | why there is no candidate, by asking again with one demand less |
//! | `metrics` | what is counted of searches, and the page of it |
//! | `headroom` | how many more guests of a flavor there is room for |
//! | `strays`, `absent` | accelerator requests, and members of server groups, that nobody knows any more |
//! | `late_claims` | claims that Placement may grant after their guests were undone, and releases that may take the next claim |
//! | `agents` | the way to a node's agent |
//! | `conductor` | all guests: one journey per guest at a time |
//! | `router` | the HTTP API, `/v1/guests` |
//!
//! Placement and the accelerator service are Berth's own or OpenStack's. Callers: `cli` (`berth up`, `berth compute serve`), `services/compute`, `tests`.

mod absent;
mod agents;
mod attestations;
mod boot;
mod cloud_hosts;
mod conductor;
mod destinations;
mod diagnosis;
mod headroom;
pub mod journal;
mod late_claims;
mod looks;
mod metrics;
mod plugins;
mod request;
mod router;
mod strays;
mod undo;
mod way;

pub use agents::{Agents, EveryNode};
pub use attestations::AttestationSource;
pub use berth_http::{serve_tcp, serve_unix};
pub use boot::{BootError, NoHostWhy};
pub use cloud_hosts::{CloudHosts, HostsAnswer};
pub use conductor::{Conductor, ConductorError, ConductorOptions, ConductorParts, JourneyEnd};
pub use destinations::{FilterScheduler, RequestSpecError};
pub use metrics::METRICS;
pub use plugins::{ExtraSpecsError, HintError, PluginError, PluginOptions, Plugins};
pub use request::{BootRequest, BootRequestError};
pub use router::{ROUTES, router};
pub use undo::UndoError;
