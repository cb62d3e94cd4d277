//! The wall clock of a run: virtual time since its start, plus the jumps of the clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::paused_clock::hold;

/// 2026-11-20T17:00:00Z, when every run begins.
const BEGIN: u64 = 1_795_194_000;

/// A wall clock that goes with the runtime's (paused) clock and may jump.
#[derive(Debug, Clone)]
pub struct HarnessClock {
    began: Instant,
    jumped: Arc<AtomicI64>,
    followers: Followers,
    stillness: Arc<ClockHold>,
}

/// Does what comes of a jump by so many seconds.
type Follower = dyn Fn(i64) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

#[derive(Clone, Default)]
struct Followers(Arc<Mutex<Vec<Arc<Follower>>>>);

impl fmt::Debug for Followers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Followers")
    }
}

/// Keeps a blocking task running while the sender exists, so that the runtime does not advance its paused clock.
#[derive(Debug, Default)]
struct ClockHold {
    held: Mutex<Option<mpsc::Sender<()>>>,
    in_progress: AtomicUsize,
}

impl HarnessClock {
    /// A clock that begins now, inside a runtime.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
            jumped: Arc::default(),
            followers: Followers::default(),
            stillness: Arc::default(),
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

    /// Jumps by this number of seconds, backwards if negative; returns once all followers have followed.
    pub async fn jump(&self, seconds: i64) {
        self.jumped.fetch_add(seconds, Ordering::SeqCst);
        let followers = self.followers.0.lock();
        let followers = followers.unwrap_or_else(PoisonError::into_inner).clone();
        for follow in followers {
            follow(seconds).await;
        }
    }

    /// From now on this is done at each jump: for what reads another clock.
    pub fn follow<F>(&self, follow: impl Fn(i64) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut followers = self
            .followers
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        followers.push(Arc::new(move |seconds| Box::pin(follow(seconds))));
    }

    /// The clock as the client takes it.
    #[must_use]
    pub fn wall(&self) -> berth_client::WallClock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Runs an effect with a stopped clock, which stays stopped until [`HarnessClock::let_time_pass`]. Otherwise an
    /// answer from another thread would be taken for one that never arrives.
    pub(super) async fn standing_still<T>(&self, effect: impl Future<Output = T>) -> T {
        struct BlockedClock<'a>(&'a AtomicUsize);
        impl Drop for BlockedClock<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        {
            let held = self.stillness.held.lock();
            let mut held = held.unwrap_or_else(PoisonError::into_inner);
            held.get_or_insert_with(hold);
        }
        let in_progress = &self.stillness.in_progress;
        in_progress.fetch_add(1, Ordering::SeqCst);
        let _in_progress = BlockedClock(in_progress);
        effect.await
    }

    /// Lets the clock go on, unless an effect is under way.
    pub(super) fn let_time_pass(&self) {
        if self.stillness.in_progress.load(Ordering::SeqCst) == 0 {
            let held = self.stillness.held.lock();
            drop(held.unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
