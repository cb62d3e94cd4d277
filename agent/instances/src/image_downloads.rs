//! The images that come before a guest's life changes: nothing of the guest is written down yet, and whoever waits for it wants to
//! know how far they are.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_agent_images::DiskPlan;
use berth_model::ConsumerUuid;

/// The disks of guests whose images come, by guest.
#[derive(Default)]
pub(super) struct ActiveDownloads(Mutex<BTreeMap<ConsumerUuid, DiskPlan>>);

/// An image comes. Dropped, it is here, or nobody waits for it any more.
pub(super) struct DownloadGuard<'a> {
    all: &'a ActiveDownloads,
    guest: ConsumerUuid,
}

impl ActiveDownloads {
    /// Those of these disks come, for as long as what this gives.
    pub(super) fn begin(&self, guest: ConsumerUuid, plan: &DiskPlan) -> DownloadGuard<'_> {
        self.known().insert(guest, plan.clone());
        DownloadGuard { all: self, guest }
    }

    /// The disks of a guest whose image comes.
    pub(super) fn of(&self, guest: ConsumerUuid) -> Option<DiskPlan> {
        self.known().get(&guest).cloned()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ConsumerUuid, DiskPlan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DownloadGuard<'_> {
    fn drop(&mut self) {
        self.all.known().remove(&self.guest);
    }
}
