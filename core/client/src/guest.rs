//! Guests over HTTP: the agent's API (what a host has) and the conductor's (what was asked for). Both say `berth/1`, and refuse
//! with a code and a sentence that names what is wrong.
//!
//! Callers: the conductor (asks agents), `berth guest` (asks both).

mod agent;
mod conductor;
mod error;
mod reading;

pub use agent::GuestClient;
pub use conductor::ConductorClient;
pub use error::{GuestApiError, GuestRefusal};
