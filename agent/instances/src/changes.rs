//! Counters of what changed of the instances of this agent.

/// What changed of guests since this process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuestChanges {
    /// Requests that were taken, deletions that were asked for, journeys that ended.
    pub count: u64,
    /// Builds that failed since the last one that did not. A start of the agent begins anew, as Nova's does: what kept builds
    /// from succeeding may well be what it was started anew for, and if it is not, the next build counts again.
    pub failed_builds: u32,
}
