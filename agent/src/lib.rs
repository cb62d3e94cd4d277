//! The node agent: the service loop that keeps Placement equal to the state of one hypervisor. It is the only crate
//! that depends on all others in `agent/`.

pub mod host_state;
pub mod metrics;
pub mod notify;
pub mod service;
pub mod triggers;
