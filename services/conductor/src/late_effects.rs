//! What the collectors of late claims and late ports remember of guests: requests for them were not answered, and may still take
//! effect.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_model::ConsumerUuid;
use tokio::time::Instant;

use crate::scan_interval::ScanInterval;

#[derive(Default)]
struct LateEffectObservations {
    /// When each guest was first seen in the journal's list.
    first_seen: BTreeMap<ConsumerUuid, Instant>,
    scan: ScanInterval,
}

/// Observations of earlier scans. Not persistent: a restart begins a new grace period.
#[derive(Default)]
pub(crate) struct LateEffects(Mutex<LateEffectObservations>);

impl LateEffects {
    /// Restarts the grace period of a guest after another lost answer.
    pub(crate) fn reset(&self, guest: ConsumerUuid) {
        self.observations().first_seen.remove(&guest);
    }

    /// Whether a scan is due. If so, it begins.
    pub(crate) fn is_due(&self, grace: Duration) -> bool {
        self.observations().scan.is_due(grace, Instant::now())
    }

    /// Forgets the guests that the journal no longer lists.
    pub(crate) fn retain(&self, is_listed: impl Fn(ConsumerUuid) -> bool) {
        let mut observations = self.observations();
        observations.first_seen.retain(|guest, _| is_listed(*guest));
    }

    /// Whether the grace period of a guest is over. The first call begins it.
    pub(crate) fn is_over(&self, guest: ConsumerUuid, grace: Duration) -> bool {
        let now = Instant::now();
        let first_seen = *self.observations().first_seen.entry(guest).or_insert(now);
        now.duration_since(first_seen) >= grace
    }

    fn observations(&self) -> MutexGuard<'_, LateEffectObservations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
