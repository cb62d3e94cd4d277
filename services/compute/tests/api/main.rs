//! Tests of the compute API through the in-process router.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aggregate_mirror;
mod cloud;
mod external_events;
mod flavor_access;
mod flavor_extra_specs;
mod flavors;
mod generated;
mod host_nouns;
mod instance_actions;
mod key_pairs;
mod place;
mod quota;
mod quota_limits;
mod remote_consoles;
mod schema;
mod server_actions;
mod server_attachments;
mod server_create;
mod server_diagnostics;
mod server_filters;
mod server_lists;
mod server_metadata;
mod server_owners;
mod server_rebuilds;
mod server_tasks;
mod servers;
mod service;
mod versions;
