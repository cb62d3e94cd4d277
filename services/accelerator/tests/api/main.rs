//! The accelerator API over the in-process router: the defects of the service it stands in for, then noun by noun.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adopted;
mod bad_input;
mod binds;
mod canaries;
mod client;
mod concurrent_binds;
mod defects;
mod devices;
mod events;
mod host_accounts;
mod kills;
mod nouns;
mod place;
mod placement;
mod programmings;
mod receiver;
mod service;
mod unbound;
