//! Tracks the image downloads of pending transitions, so that the API can show their progress: the journal has no entry
//! for such a transition yet.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_agent_images::DiskPlan;
use berth_model::ConsumerUuid;

/// The disk plans whose images are being downloaded, by instance.
#[derive(Default)]
pub(super) struct ActiveDownloads(Mutex<BTreeMap<ConsumerUuid, DiskPlan>>);

/// A download in progress. Dropping it ends the tracking.
pub(super) struct DownloadGuard<'a> {
    all: &'a ActiveDownloads,
    guest: ConsumerUuid,
}

impl ActiveDownloads {
    /// Tracks the download of the plan's images until the guard is dropped.
    pub(super) fn begin(&self, guest: ConsumerUuid, plan: &DiskPlan) -> DownloadGuard<'_> {
        self.locked().insert(guest, plan.clone());
        DownloadGuard { all: self, guest }
    }

    /// The plan whose images are being downloaded for the instance.
    pub(super) fn of(&self, guest: ConsumerUuid) -> Option<DiskPlan> {
        self.locked().get(&guest).cloned()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<ConsumerUuid, DiskPlan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DownloadGuard<'_> {
    fn drop(&mut self) {
        self.all.locked().remove(&self.guest);
    }
}
