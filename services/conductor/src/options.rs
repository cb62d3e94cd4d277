//! [`ConductorOptions`]: limits, timeouts and intervals of a conductor.

use std::time::Duration;

/// Options of a [`Conductor`](crate::Conductor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConductorOptions {
    /// Maximum number of attempts of a boot, each with other candidates (Nova's `[scheduler]
    /// max_attempts`), at least 1.
    pub max_attempts: u32,
    /// Maximum number of guests whose boot is between its begin and the acceptance by an agent (`[conductor_service]
    /// workers`), at least 1. The others wait; projects get their turns one after the other.
    pub workers: usize,
    /// Maximum number of concurrent host searches (`[conductor_service] scheduler_workers`), at least 1.
    /// Concurrent searches may choose the same devices; all but one of them then search again. Projects get their turns
    /// one after the other.
    pub scheduler_workers: usize,
    /// Interval of queries for an agent's build progress.
    pub poll_interval: Duration,
    /// How long a boot may be blocked by an unavailable service, or by a device in preparation, before the
    /// attempt is undone (`[conductor_service] retry_timeout`).
    pub retry_timeout: Duration,
    /// How long a delete waits for the agent before it is retried later.
    pub delete_timeout: Duration,
    /// Delay before the first retry of a blocked guest; doubles with each retry.
    pub retry_delay: Duration,
    /// Maximum delay between retries.
    pub max_retry_delay: Duration,
    /// Grace period before an orphaned accelerator request or a stale server-group member is deleted.
    pub orphan_grace: Duration,
    /// Maximum age of the headroom in the metrics before a read computes it again (`[conductor_service]
    /// headroom_interval`); `None` disables it.
    pub headroom_interval: Option<Duration>,
}

impl Default for ConductorOptions {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            workers: 16,
            scheduler_workers: 4,
            poll_interval: Duration::from_millis(500),
            retry_timeout: Duration::from_mins(2),
            delete_timeout: Duration::from_secs(30),
            retry_delay: Duration::from_secs(1),
            max_retry_delay: Duration::from_mins(1),
            orphan_grace: Duration::from_mins(10),
            headroom_interval: Some(Duration::from_mins(1)),
        }
    }
}
