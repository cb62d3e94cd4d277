//! The input of a selection.

use crate::request::RequestSpec;

/// A request for one instance, or for several that are alike.
#[derive(Debug, Clone)]
pub struct SelectionRequest {
    /// What each of them is to be; its `instance_uuid` is set for each in turn.
    pub request: RequestSpec,
    /// The instances, in their order.
    pub instance_uuids: Vec<String>,
    /// Whether alternate hosts are selected, which are used if a build fails.
    pub alternates: Alternates,
    /// Whether hosts are claimed.
    pub claims: ClaimPolicy,
    /// Where options leave something to chance, a seed has one outcome.
    pub seed: u64,
}

/// Whether a selection has alternates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternates {
    /// As many alternates as `[scheduler] max_attempts` allows.
    Wanted,
    None,
}

/// Whether the caller claims selected hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimPolicy {
    /// By one of the host's candidates.
    Needed,
    /// The instance keeps its allocations: it is rebuilt on its host.
    Kept,
}
