//! What the scheduler knows of this host: the host's whole state, told when it changed, and a sign of life else.
//!
//! | room | what it does |
//! |---|---|
//! | `compose` | from what is seen, journaled and reported to the body: pure |
//! | `usage` | what guests have of CPUs, memory and disk: pure |
//! | `numa` | the host's cells, and what guests have of them: pure |
//! | `pci` | the devices for pass-through that are free: pure |
//! | `cpu_info` | the processor, as Nova writes it: pure |
//! | [`monitors`] | what `compute_monitors` make of what the CPUs did: pure |
//! | `service` | what the composition root says of the scheduler |
//! | `telling` | the loop |
//!
//! Nothing here holds up a tick or a guest: the loop reads what the service publishes, and the journal. Callers: the service
//! (begins it), the composition root (says where the scheduler is).

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
pub use reporter::TellError;
pub(crate) use reporter::{HostStateReporter, ReporterDeps};
pub use service::{HostStateOptions, HostStateService};
