//! The resource tracker: keeps the provider trees of this host's nodes in Placement equal to what the driver observes.
//!
//! ```text
//! driver's view ─┐
//!                 ├─ propose ─► plan ─► startup or tick ─► report_client ─► Placement
//! Placement's tree┘
//! ```
//!
//! [`node_identity`] decides which node this is.

pub mod allocation_audit;
pub mod backoff;
pub mod complete;
pub mod disabled;
mod known_trees;
pub mod node_identity;
pub mod options;
pub mod propose;
pub mod provider_config;
pub mod rename;
pub mod report_client;
pub mod startup;
pub mod tick;

pub use known_trees::KnownTrees;
