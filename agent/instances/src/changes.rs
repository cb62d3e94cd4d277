//! Counters of the changes to this agent's instances.

/// Changes to instances since the start of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuestChanges {
    /// Accepted requests, requested deletions and completed reconciliations.
    pub count: u64,
    /// Builds that failed since the last successful one. The count starts at 0 with the process, as Nova's does: the
    /// restart may have fixed the cause, and if it did not, the next build counts again.
    pub failed_builds: u32,
}
