//! The node agent: the service loop that keeps one hypervisor and Placement in step. It is the only crate that knows all the others
//! of `agent/`.

pub mod host_state;
pub mod metrics;
pub mod notify;
pub mod service;
pub mod triggers;
