//! OpenStack's Placement API over OpenStack's own schema, as one router.
//!
//! [`prepare`] brings a database to the schema, [`router()`] makes the API over it. The router is
//! called in process, behind a unix socket or behind TCP, always the same way. A request passes
//! the door (`berth_http`), a handler (`handlers/<noun>`), pure checks (`ledger`, `inventory`,
//! `filters`) and the tables (`store/<noun>`); each writing handler is one transaction, run again
//! as a whole when another writer came in between; claims that come at once share one (`claims`). Allocation candidates are found by a pure search (`candidates`), in a
//! snapshot of all trees that follows the writes (`snapshots`) or in trees that are read for it (`searches`).
//!
//! Callers: `cli` (served or in process), `tests`.

mod candidates;
mod claims;
mod filters;
#[doc(hidden)]
pub mod fuzzing;
mod gathering;
mod handlers;
mod inventory;
mod ledger;
mod microversions;
mod openapi;
mod policies;
mod router;
mod schemas;
mod searches;
mod snapshots;
mod standard;
mod store;

pub use berth_http::{serve_tcp, serve_unix};
pub use openapi::openapi;
pub use policies::{DeprecatedDefaults, default_policy, rules};
pub use router::{Options, router};
pub use searches::CandidatesFrom;
pub use store::schema::{
    Copied, Copy, CopyError, Difference, HEAD, IncompleteConsumers, Plan, Problem, Revision,
    SchemaError, Step, Sync, Version, can_be_copied_to, check, compare, copy, plan, prepare, sync,
    version,
};
