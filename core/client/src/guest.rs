//! Clients of the guest APIs: the agent's (guests of a host) and the conductor's (boot requests). Both identify
//! themselves as `berth/1` and refuse with a code and a message.
//!
//! Callers: the conductor and the compute API (agents), `berth guest` (both).

mod agent;
mod conductor;
mod error;
mod responses;

pub use agent::GuestClient;
pub use conductor::ConductorClient;
pub use error::{GuestApiError, GuestRefusal};
