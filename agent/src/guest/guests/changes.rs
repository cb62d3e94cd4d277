//! What changed of guests, counted: for whoever tells others of them.

use berth_virt::VirtDriver;
use tokio::sync::watch;

use super::Guests;
use crate::guest::resources::GuestResources;

/// What changed of guests since this process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuestChanges {
    /// Requests that were taken, deletions that were asked for, journeys that ended.
    pub count: u64,
    /// Builds that failed since the last one that did not. A start of the agent begins anew, as Nova's does: what kept builds
    /// from succeeding may well be what it was started anew for, and if it is not, the next build counts again.
    pub failed_builds: u32,
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// What changed, with a word whenever something did.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<GuestChanges> {
        self.inner.changes.subscribe()
    }

    /// Something of what guests have of this host may be another now.
    pub(in crate::guest) fn note_change(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| changes.count += 1);
    }

    /// A guest runs that never did.
    pub(super) fn build_succeeded(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| changes.failed_builds = 0);
    }

    /// A guest that never ran will not.
    pub(super) fn build_failed(&self) {
        let changes = &self.inner.changes;
        changes.send_modify(|changes| {
            changes.failed_builds = changes.failed_builds.saturating_add(1);
        });
    }
}
