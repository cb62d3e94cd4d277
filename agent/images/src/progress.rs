//! How far an image has come, for whoever shows it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::image_source::ImageKey;

/// What is being done with an image, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageStage {
    Fetch,
    /// It is made flat.
    Convert,
    Done,
}

impl ImageStage {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Convert => "convert",
            Self::Done => "done",
        }
    }
}

/// How far an image has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageDownload {
    /// What is being done with it.
    pub stage: ImageStage,
    /// How many bytes are done.
    pub done: u64,
    /// Of how many, where that is known.
    pub of: Option<u64>,
}

/// Who is told how far an image has come. Called often, and waited for: to be quick.
pub trait ImageProgress: Send + Sync + 'static {
    /// So many bytes are done, of so many where that is known.
    fn moved(&self, image: &ImageKey, stage: ImageStage, done: u64, of: Option<u64>);
}

/// Into the log: each stage once, and every ten seconds while it lasts.
#[derive(Debug, Default)]
pub struct LoggedProgress {
    last: Mutex<Option<(ImageKey, ImageStage, Instant)>>,
}

/// The images that are coming, for whoever asks, and on to whoever is told.
pub(super) struct Coming {
    told: Arc<dyn ImageProgress>,
    now: Mutex<BTreeMap<ImageKey, ImageDownload>>,
}

impl Coming {
    pub(super) fn new(told: Arc<dyn ImageProgress>) -> Self {
        let now = Mutex::default();
        Self { told, now }
    }

    fn now(&self) -> MutexGuard<'_, BTreeMap<ImageKey, ImageDownload>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, image: &ImageKey) -> Option<ImageDownload> {
        self.now().get(image).copied()
    }

    /// Until this is dropped the image may be coming; afterwards it is there, or is not coming any more.
    pub(super) fn until_dropped(self: &Arc<Self>, image: ImageKey) -> UnderWay {
        let coming = Arc::clone(self);
        let begun = ImageDownload {
            stage: ImageStage::Fetch,
            done: 0,
            of: None,
        };
        self.now().insert(image.clone(), begun);
        UnderWay { coming, image }
    }
}

impl ImageProgress for Coming {
    fn moved(&self, image: &ImageKey, stage: ImageStage, done: u64, of: Option<u64>) {
        // A thread that was given up may say a last word.
        if let Some(known) = self.now().get_mut(image) {
            *known = ImageDownload { stage, done, of };
        }
        self.told.moved(image, stage, done, of);
    }
}

/// An image that is coming.
pub(super) struct UnderWay {
    coming: Arc<Coming>,
    image: ImageKey,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.coming.now().remove(&self.image);
    }
}

const PAUSE: Duration = Duration::from_secs(10);

impl ImageProgress for LoggedProgress {
    fn moved(&self, image: &ImageKey, stage: ImageStage, done: u64, of: Option<u64>) {
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
            ImageStage::Fetch => tracing::info!(%image, done, of, "an image is being fetched"),
            ImageStage::Convert => tracing::info!(%image, done, of, "an image is being made flat"),
            ImageStage::Done => tracing::info!(%image, bytes = done, "an image is there"),
        }
    }
}
