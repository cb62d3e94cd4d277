//! The Placement API over the in-process router, noun by noun.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aggregates;
mod allocation_candidates;
mod allocations;
mod claims;
mod cors;
mod counters;
mod door;
mod generated;
mod host_accounts;
mod inventories;
mod kills;
mod providers;
mod random_cloud;
mod reshaper;
mod resource_classes;
mod schema;
mod searches;
mod service;
mod sockets;
mod traits;
mod usages;
