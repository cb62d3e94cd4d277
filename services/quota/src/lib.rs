//! Quotas: how much a project may have, with Nova's names and defaults.
//!
//! ```text
//! [quota] of the configuration --+
//!                                +--> QuotaLimits of a project --+
//! a project's own limits --------+                               +--> server_count: how many servers a request gets
//! servers of the project -----------> QuotaAmounts --------------+
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `limits` | [`QuotaLimits`]: what is limited, and how far; pure |
//! | `amounts` | [`QuotaAmounts`]: what servers use, and how many more the limits allow; pure |
//! | `unified_names` | the names of quotas in Nova's unified limits; pure |
//! | `hook` | [`QuotaHook`]: a program of the operator that can refuse servers in addition to the limits |
//!
//! The crate stores nothing. `services/compute` stores the limits of projects. It counts what a project uses in the
//! transaction that writes (ADR 37).
//!
//! Used by `services/compute`, `cli` (configuration, unified limits of the Identity service) and `tests`.

mod amounts;
mod hook;
mod limits;
mod unified_names;

pub use amounts::{ExceededQuota, GuestResources, QuotaAmounts, QuotaExceeded, server_count};
pub use hook::{
    OnQuotaFailure, QUOTA_SCHEMA, QuotaHook, QuotaHookError, QuotaOptions, QuotaQuestion,
    QuotaRefused,
};
pub use limits::{
    MAX_METADATA_ITEMS, QuotaLimit, QuotaLimits, QuotaResource, UnknownQuotaResource,
};
pub use unified_names::UNIFIED_FILE_LIMITS;
