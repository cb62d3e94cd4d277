//! The wall clock of a run: virtual time since the run began, and the hours it was made to jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// 2026-11-20T17:00:00Z, when every run begins.
const BEGIN: u64 = 1_795_194_000;

/// A wall clock that goes with the runtime's (paused) clock and may jump.
#[derive(Debug, Clone)]
pub struct HarnessClock {
    began: Instant,
    jumped: Arc<AtomicI64>,
}

impl HarnessClock {
    /// A clock that begins now, inside a runtime.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
            jumped: Arc::default(),
        }
    }

    /// Time since the run began; no jump changes it.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// What the wall clock shows.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let jumped = self.jumped.load(Ordering::SeqCst);
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN);
        let jump = Duration::from_secs(jumped.unsigned_abs());
        let shown = if jumped < 0 {
            begin - jump
        } else {
            begin + jump
        };
        shown + self.elapsed()
    }

    /// Jumps by so many seconds, back where negative.
    pub fn jump(&self, seconds: i64) {
        self.jumped.fetch_add(seconds, Ordering::SeqCst);
    }

    /// The clock as the client takes it.
    #[must_use]
    pub fn wall(&self) -> berth_client::Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}
