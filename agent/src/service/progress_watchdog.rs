//! Detects a pass that hangs. A pass makes progress when it begins, with every finished request to Placement (successful or
//! not), and with every consumer whose allocations were read. So a pass may take hours (a reshape of thousands of consumers, a
//! slow Placement) and still make progress.
//!
//! The longest time between two such events follows from the configuration: `[placement] timeout` (ten times that for a
//! reshape), the backoff before a retry, and the logins of all nodes that share the session
//! ([`berth_client::PlacementClient::longest_quiet`]). If it is exceeded by [`MARGIN`], this process or its disk hangs: the agent
//! no longer notifies the service manager, whose watchdog then kills the process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use berth_client::{HttpExchange, RequestObserver};
use tokio::time::Instant;

/// Additional time for everything that is not a request: state files, and a busy machine.
pub(super) const MARGIN: Duration = Duration::from_mins(1);

/// Time limit of one observation. Drivers limit their calls themselves; this is longer than any number of them.
pub(super) const LONGEST_OBSERVATION: Duration = Duration::from_mins(15);

pub(super) struct ProgressWatchdog {
    origin: Instant,
    last: AtomicU64,
    read: AtomicUsize,
    all: AtomicUsize,
}

impl ProgressWatchdog {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            origin: now,
            last: AtomicU64::new(0),
            read: AtomicUsize::new(0),
            all: AtomicUsize::new(0),
        }
    }

    pub(super) fn begin(&self, now: Instant) {
        self.read(0, 0, now);
    }

    fn record_progress(&self, now: Instant) {
        let millis = u64::try_from(now.duration_since(self.origin).as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// Records the progress of reading allocations.
    pub(super) fn read(&self, read: usize, all: usize, now: Instant) {
        self.read.store(read, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        self.record_progress(now);
    }

    /// Time since the last progress.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let last = self.origin + Duration::from_millis(self.last.load(Ordering::Relaxed));
        now.duration_since(last)
    }

    /// Consumers read, and their total number; `None` unless allocations are being read.
    pub(super) fn consumers(&self) -> Option<(usize, usize)> {
        let (read, all) = (
            self.read.load(Ordering::Relaxed),
            self.all.load(Ordering::Relaxed),
        );
        (all > 0).then_some((read, all))
    }
}

impl RequestObserver for ProgressWatchdog {
    fn observed(&self, _exchange: &HttpExchange<'_>) {
        self.record_progress(Instant::now());
    }
}
