//! Allocation candidates of Placement.

use std::collections::BTreeMap;

/// An allocation candidate: `allocation_requests` of GET /allocation_candidates, from microversion 1.34.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocationCandidate {
    /// Amounts by provider and resource class.
    pub allocations: BTreeMap<String, BTreeMap<String, i64>>,
    /// The providers that each request group (by suffix) is served by.
    pub mappings: BTreeMap<String, Vec<String>>,
}
