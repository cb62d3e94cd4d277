//! "The machine changed", by looking every now and then at when its file did.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use berth_virt::HostEvent;
use futures_core::Stream;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the file is looked at.
const PACE: Duration = Duration::from_millis(200);

/// Tells one state of a machine's source from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// A file: when it was written, its size, and which file it is (editors replace it). None while there is none.
    File(Option<(SystemTime, u64, u64)>),
    /// A text in memory: how often it was replaced.
    Text(u64),
}

impl Stamp {
    pub(crate) fn of_file(path: &Path) -> Stamp {
        let metadata = std::fs::metadata(path).ok();
        metadata.map_or(Stamp::File(None), |file| Stamp::of(&file))
    }

    /// The state of the file that this was told of.
    pub(crate) fn of(file: &Metadata) -> Stamp {
        let written = file.modified().ok();
        Stamp::File(written.map(|written| (written, file.len(), file.ino())))
    }

    /// Whether a later change could not be told from this state: the file was written so short a time ago that the next
    /// write may carry the same time.
    pub(crate) fn is_fresh(&self, now: SystemTime) -> bool {
        match self {
            Stamp::File(Some((written, ..))) => now
                .duration_since(*written)
                .map_or(true, |age| age < Duration::from_secs(2)),
            Stamp::File(None) => true,
            Stamp::Text(_) => false,
        }
    }
}

/// The stream: an event for each look that finds another state than the one before.
pub(crate) struct Changes<F, S> {
    look: F,
    last: S,
    // Made at the first poll: a timer needs the runtime, and watch() may be called before it runs.
    pace: Option<Interval>,
}

impl<F: FnMut() -> S, S> Changes<F, S> {
    /// Changes from now on.
    pub(crate) fn from_now(mut look: F) -> Self {
        let last = look();
        Self {
            look,
            last,
            pace: None,
        }
    }
}

impl<F: FnMut() -> S + Unpin, S: PartialEq + Unpin> Stream for Changes<F, S> {
    type Item = HostEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<HostEvent>> {
        let this = &mut *self;
        let pace = this.pace.get_or_insert_with(|| {
            let mut pace = interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        while pace.poll_tick(context).is_ready() {
            let now = (this.look)();
            if now != this.last {
                this.last = now;
                return Poll::Ready(Some(HostEvent::Unknown));
            }
        }
        Poll::Pending
    }
}
