//! Tracks the progress of image downloads ([`DownloadTracker`]) and logs it ([`LoggedProgress`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::image_source::ImageKey;

/// The stages of providing an image, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageStage {
    Fetch,
    /// The conversion to a raw file.
    Convert,
    Done,
}

impl ImageStage {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Convert => "convert",
            Self::Done => "done",
        }
    }
}

/// The progress of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageDownload {
    pub stage: ImageStage,
    pub done: u64,
    /// Total bytes, if known.
    pub of: Option<u64>,
}

/// Receives the progress of images. Called often and synchronously, so it must be quick.
pub trait ImageProgress: Send + Sync + 'static {
    /// `done` bytes of `of` are processed; `of` is `None` if unknown.
    fn on_progress(&self, image: &ImageKey, stage: ImageStage, done: u64, of: Option<u64>);
}

/// Logs each stage once, and again every ten seconds while it lasts.
#[derive(Debug, Default)]
pub struct LoggedProgress {
    last: Mutex<Option<(ImageKey, ImageStage, Instant)>>,
}

/// The running downloads. Passes their progress on to an observer.
pub(super) struct DownloadTracker {
    observer: Arc<dyn ImageProgress>,
    active: Mutex<BTreeMap<ImageKey, ImageDownload>>,
}

impl DownloadTracker {
    pub(super) fn new(observer: Arc<dyn ImageProgress>) -> Self {
        let active = Mutex::default();
        Self { observer, active }
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<ImageKey, ImageDownload>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, image: &ImageKey) -> Option<ImageDownload> {
        self.active().get(image).copied()
    }

    /// Tracks a download until the result is dropped.
    pub(super) fn track(self: &Arc<Self>, image: ImageKey) -> TrackedDownload {
        let coming = Arc::clone(self);
        let begun = ImageDownload {
            stage: ImageStage::Fetch,
            done: 0,
            of: None,
        };
        self.active().insert(image.clone(), begun);
        TrackedDownload { coming, image }
    }
}

impl ImageProgress for DownloadTracker {
    fn on_progress(&self, image: &ImageKey, stage: ImageStage, done: u64, of: Option<u64>) {
        // A cancelled task may report once more.
        if let Some(known) = self.active().get_mut(image) {
            *known = ImageDownload { stage, done, of };
        }
        self.observer.on_progress(image, stage, done, of);
    }
}

/// A tracked download. Dropping it ends the tracking.
pub(super) struct TrackedDownload {
    coming: Arc<DownloadTracker>,
    image: ImageKey,
}

impl Drop for TrackedDownload {
    fn drop(&mut self) {
        self.coming.active().remove(&self.image);
    }
}

const PAUSE: Duration = Duration::from_secs(10);

impl ImageProgress for LoggedProgress {
    fn on_progress(&self, image: &ImageKey, stage: ImageStage, done: u64, of: Option<u64>) {
        let Ok(mut last) = self.last.lock() else {
            return;
        };
        let quiet = last.as_ref().is_some_and(|(before, at, when)| {
            before == image && *at == stage && when.elapsed() < PAUSE
        });
        if quiet {
            return;
        }
        *last = Some((image.clone(), stage, Instant::now()));
        match stage {
            ImageStage::Fetch => tracing::info!(%image, done, of, "fetching an image"),
            ImageStage::Convert => tracing::info!(%image, done, of, "converting an image to raw"),
            ImageStage::Done => tracing::info!(%image, bytes = done, "image is available"),
        }
    }
}
