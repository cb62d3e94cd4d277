//! Reports the state of this host to the scheduler: the complete state when it changed, otherwise a heartbeat.
//!
//! | module | contents |
//! |---|---|
//! | `node_facts` | what the agent knows of a node, the input of `compose` |
//! | `compose` | from observation, journal and provider trees to the request body: pure |
//! | `usage` | CPUs, memory and disk that guests use: pure |
//! | `numa` | NUMA cells and their usage: pure |
//! | `pci` | free devices for passthrough: pure |
//! | `cpu_info` | the processor in Nova's form: pure |
//! | [`monitors`] | metrics of `compute_monitors`: pure |
//! | `service` | configuration from the composition root |
//! | `reporter` | the loop |
//!
//! A *tick* is one run of the agent's main loop, which observes the host and updates Placement. The *journal* is the
//! agent's database of guests. The reporter only reads what the last tick published and the journal, so it delays neither
//! ticks nor operations on guests.

mod compose;
mod cpu_info;
pub mod monitors;
mod node_facts;
mod numa;
mod pci;
mod reporter;
mod service;
mod usage;

pub use compose::node_state;
pub use node_facts::NodeFacts;
pub use reporter::HostReportError;
pub(crate) use reporter::{HostStateReporter, ReporterDeps};
pub use service::{HostStateOptions, HostStateService, OwnHostName};
