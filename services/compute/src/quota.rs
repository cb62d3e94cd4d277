//! Quotas: how much a project may have, with Nova's names and defaults.
//!
//! ```text
//! [quota] of the configuration --+
//!                                +--> limits of a project --> checked in the transaction that writes
//! table compute_quotas ----------+         (pure)             (servers, metadata, key pairs)
//! ```
//!
//! Usage is counted from the rows themselves, in the same transaction. Writers of one project are serialised by its row
//! in `compute_quota_locks`. The Identity service shows and changes limits by their names of Nova's unified limits
//! (`unified_names`). An operator's program can refuse servers in addition (`hook`).

mod amounts;
mod hook;
mod limits;
mod project_quotas;
mod unified_names;

pub use amounts::QuotaAmounts;
pub use amounts::{ExceededQuota, QuotaExceeded};
pub(crate) use amounts::{GuestResources, server_count};
pub use hook::{
    OnQuotaFailure, QUOTA_SCHEMA, QuotaHook, QuotaHookError, QuotaOptions, QuotaQuestion,
    QuotaRefused,
};
pub use limits::{QuotaLimit, QuotaLimits, QuotaResource, UnknownQuotaResource};
pub use project_quotas::{ProjectQuota, ProjectQuotaError};
pub(crate) use project_quotas::{
    QuotaChange, QuotaHolder, UsageCheck, generation, limits_of, lock,
};
pub use unified_names::UNIFIED_FILE_LIMITS;
