//! What the scheduler knows of this host: the host's whole state, told when it changed, and a sign of life else.
//!
//! | room | what it does |
//! |---|---|
//! | [`compose`] | from what is seen, journaled and reported to the body: pure |
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

pub mod compose;
mod cpu_info;
pub mod monitors;
mod numa;
mod pci;
mod service;
mod reporter;
mod usage;

pub use compose::{NodeFacts, node_state};
pub use service::{HostStateOptions, HostStateService};
pub use reporter::TellError;
pub(crate) use reporter::{ReporterDeps, HostStateReporter};
