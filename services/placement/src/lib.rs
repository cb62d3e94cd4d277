//! OpenStack's Placement API over OpenStack's own database schema.
//!
//! ```text
//! request ─► service layer (berth_http) ─► handlers ─► pure checks (ledger, inventory, filters) ─► store (tables)
//!                                             │
//!                                             └─► candidates (pure search) in a snapshot, or in trees loaded from the tables
//! ```
//!
//! [`prepare`] creates or checks the schema, and [`router()`] builds the API over it. The router is used in the same way in
//! process, behind a unix socket and behind TCP. Each write is one transaction that is retried as a whole after a conflict.
//! Concurrent claims share a transaction. Allocation candidates are searched in a snapshot of all trees that follows the writes
//! (`snapshots`), or in trees that are loaded for the request (`searches`). `cli` composes this crate.

mod candidates;
mod claim_queue;
mod filters;
#[doc(hidden)]
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handlers;
mod host_accounts;
mod inventory;
mod ledger;
mod microversions;
mod openapi;
mod policies;
mod router;
mod schemas;
mod searches;
mod single_flight;
mod snapshots;
mod standard;
mod store;

pub use berth_http::{serve_tcp, serve_unix};
pub use openapi::openapi;
pub use policies::{DeprecatedDefaults, default_policy, rules};
pub use router::{PlacementApiOptions, router};
pub use searches::CandidatesFrom;
pub use store::schema::{
    CopiedTable, Copy, CopyError, Difference, HEAD, IncompleteConsumers, PlacementSchemaError,
    Revision, SchemaStep, SchemaVersion, ShapeDifference, Sync, SyncPlan, can_be_copied_to, check,
    compare, copy, plan, prepare, sync, version,
};
