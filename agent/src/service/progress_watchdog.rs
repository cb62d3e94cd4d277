//! Whether a pass goes on, or hangs. A node's pulse beats when a pass of it begins, for every exchange with Placement that is
//! over, however it ended, and for every consumer that was read: so a pass may take hours (a reshape of thousands of
//! consumers, a slow Placement) and still be alive.
//!
//! Between two beats lies at most what the configuration allows one request: `[placement] timeout` (ten times that for a
//! reshape), the pause before a repetition, and the logins that are waited for, one for each node that shares the session
//! ([`berth_client::PlacementClient::longest_quiet`]). A pulse that is silent for longer than that and [`MARGIN`] is no slow
//! Placement but a hang of this process or of its disk: the service manager is told of no progress any more, and its
//! watchdog ends the process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use berth_client::{Exchange, RequestObserver};
use tokio::time::Instant;

/// For what is no request: the state files, and a machine that is busy with something else.
pub(super) const MARGIN: Duration = Duration::from_mins(1);

/// How long one look at the hypervisor may take. A driver bounds its calls itself; this is longer than any number of them.
pub(super) const LONGEST_LOOK: Duration = Duration::from_mins(15);

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

    fn beat(&self, now: Instant) {
        let millis = u64::try_from(now.duration_since(self.origin).as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// So many consumers were read, of so many.
    pub(super) fn read(&self, read: usize, all: usize, now: Instant) {
        self.read.store(read, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
        self.beat(now);
    }

    /// How long it has been silent.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let last = self.origin + Duration::from_millis(self.last.load(Ordering::Relaxed));
        now.duration_since(last)
    }

    /// Consumers read, of how many; none unless allocations are being read.
    pub(super) fn consumers(&self) -> Option<(usize, usize)> {
        let (read, all) = (
            self.read.load(Ordering::Relaxed),
            self.all.load(Ordering::Relaxed),
        );
        (all > 0).then_some((read, all))
    }
}

impl RequestObserver for ProgressWatchdog {
    fn observed(&self, _exchange: &Exchange<'_>) {
        self.beat(Instant::now());
    }
}
