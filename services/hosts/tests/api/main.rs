//! The compute hosts over the in-process router and by their functions: states first, then noun by noun.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aggregates;
mod guests;
mod host_accounts;
mod host_states;
mod kills;
mod place;
mod scheduling_records;
mod schema;
mod server_groups;
mod service;
mod states;
