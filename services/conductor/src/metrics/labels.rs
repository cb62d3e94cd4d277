//! Label values of searches, claims and boot stages: the names of the variants.

use strum::{IntoStaticStr, VariantArray};

/// Outcome of a host search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum SearchOutcome {
    Selected,
    /// No host passed the filters.
    NoValidHost,
    /// Placement has no candidates besides those on which earlier attempts failed.
    NoCandidates,
    /// All candidates were claimed by other requests.
    AllTaken,
    /// The scheduler knows none of the candidate hosts, or reaches none of their agents.
    Unknown,
    /// Undecided: a service failed, the server group changed, or the guest is being deleted.
    Undecided,
}

/// Result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum ClaimResult {
    Granted,
    /// Another request was first.
    Refused,
}

/// The stages of a boot, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum BootStage {
    /// Search and claim of a host.
    Place,
    /// Creation of accelerator requests.
    Provide,
    Bind,
    /// Creation and binding of ports.
    Network,
    /// The host's agent builds the guest.
    Build,
}
