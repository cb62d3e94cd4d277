//! Watches a machine for changes by polling the stamp of its source.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use berth_virt::HostEvent;
use futures_core::Stream;
use tokio::time::{Interval, MissedTickBehavior, interval};

const PACE: Duration = Duration::from_millis(200);

/// Identifies a state of a machine's source without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// A file's modification time, size and inode (editors replace the file). `None` if it does not exist.
    File(Option<(SystemTime, u64, u64)>),
    /// The number of replacements of a text in memory.
    Text(u64),
}

impl Stamp {
    pub(crate) fn of_file(path: &Path) -> Stamp {
        let metadata = std::fs::metadata(path).ok();
        metadata.map_or(Stamp::File(None), |file| Stamp::of(&file))
    }

    /// The stamp of a file's metadata.
    pub(crate) fn of(file: &Metadata) -> Stamp {
        let written = file.modified().ok();
        Stamp::File(written.map(|written| (written, file.len(), file.ino())))
    }

    /// Whether a later change may have the same stamp: the file was written so recently that the next write may have
    /// the same modification time.
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

/// A stream with an event for each poll that finds another state.
pub(crate) struct Changes<F, S> {
    read_stamp: F,
    last: S,
    // Created at the first poll: a timer needs the runtime, and `watch` may be called before it runs.
    pace: Option<Interval>,
}

impl<F: FnMut() -> S, S> Changes<F, S> {
    /// Changes from now on.
    pub(crate) fn from_now(mut read_stamp: F) -> Self {
        let last = read_stamp();
        Self {
            read_stamp,
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
            let now = (this.read_stamp)();
            if now != this.last {
                this.last = now;
                return Poll::Ready(Some(HostEvent::Unknown));
            }
        }
        Poll::Pending
    }
}
