//! Repairs the allocations of guests after unanswered claims or releases.
//!
//! Placement may apply such a request later. It may grant a claim for a guest that was already undone, or release the
//! newer claim of a running guest. Therefore this collector observes the guest for a grace period: it deletes late
//! claims of undone guests, and restores missing claims of active guests. Until then, the guest's UUID stays owned by
//! this conductor.

mod collect;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_model::ConsumerUuid;
use tokio::time::Instant;

use crate::scan_interval::ScanInterval;

#[derive(Default)]
struct LateClaimObservations {
    /// When each guest was first seen in the journal's list of late claims.
    first_seen: BTreeMap<ConsumerUuid, Instant>,
    scan: ScanInterval,
}

/// Observations of earlier scans. Not persistent: a restart begins a new grace period.
#[derive(Default)]
pub(crate) struct LateClaims(Mutex<LateClaimObservations>);

impl LateClaims {
    /// Restarts the grace period of a guest after another lost answer.
    pub(crate) fn reset(&self, guest: ConsumerUuid) {
        self.observations().first_seen.remove(&guest);
    }

    fn observations(&self) -> MutexGuard<'_, LateClaimObservations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
