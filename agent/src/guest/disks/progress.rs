//! How far an image has come, for whoever shows it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::ImageKey;

/// What is being done with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageStage {
    /// Its bytes come.
    Fetch,
    /// It is made flat.
    Convert,
    /// It is there.
    Done,
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
