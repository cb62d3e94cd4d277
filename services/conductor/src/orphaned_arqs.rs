//! Garbage collector for accelerator requests (ARQs) whose creation was not answered, so that their UUIDs are
//! unknown.
//!
//! This happens if the answer was lost, or the conductor stopped before it was recorded. Such ARQs are unbound and
//! hold no device. The accelerator service cannot tell them from ARQs that another client is creating. Therefore an
//! ARQ is deleted only after a grace period, and only for device profiles for which the journal records such a loss.

mod collect;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_model::{ArqUuid, DeviceProfileName};
use tokio::time::Instant;

use crate::scan_interval::ScanInterval;

/// Times since when the conditions hold.
#[derive(Default)]
struct ArqObservations {
    /// When each unknown ARQ was first seen.
    first_seen: BTreeMap<ArqUuid, Instant>,
    /// When each profile's loss was first seen in the journal.
    losses: BTreeMap<String, Instant>,
    /// Profiles without orphans in the last scan, and without a loss since.
    clear: BTreeSet<String>,
    scan: ScanInterval,
}

/// Observations of earlier scans. Not persistent: a restart begins a new grace period.
#[derive(Default)]
pub(crate) struct OrphanedArqs {
    observations: Mutex<ArqObservations>,
    /// Serialises the journal's records of losses.
    records: tokio::sync::Mutex<()>,
}

impl OrphanedArqs {
    /// Locks the journal's records of losses.
    pub(crate) async fn lock_records(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.records.lock().await
    }

    /// Whether the profile is still without a loss since the last scan.
    fn is_clear(&self, profile: &DeviceProfileName) -> bool {
        self.observations().clear.contains(profile.as_str())
    }

    /// Restarts the grace period of a profile after a new loss: earlier observations do not cover the
    /// ARQs of that request.
    pub(crate) fn reset(&self, profile: &DeviceProfileName) {
        let mut observations = self.observations();
        observations.losses.remove(profile.as_str());
        observations.clear.remove(profile.as_str());
    }

    fn observations(&self) -> MutexGuard<'_, ArqObservations> {
        self.observations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ARQs that were unknown for the grace period, and the profiles that are clear.
    ///
    /// A profile is clear when none of the ARQs is left that appeared within the grace period after the loss was
    /// recorded. Later unknown ARQs belong to another conductor, so they do not keep the profile under observation.
    fn classify(
        &self,
        unknown: &BTreeMap<ArqUuid, DeviceProfileName>,
        profiles: &[DeviceProfileName],
        grace: Duration,
        now: Instant,
    ) -> (Vec<ArqUuid>, Vec<DeviceProfileName>) {
        let mut observations = self.observations();
        observations
            .first_seen
            .retain(|arq, _| unknown.contains_key(arq));
        let overdue = unknown.keys().copied().filter(|arq| {
            let first = *observations.first_seen.entry(*arq).or_insert(now);
            now.duration_since(first) >= grace
        });
        let overdue = overdue.collect();
        let clean = profiles.iter().filter(|profile| {
            let noted = *observations
                .losses
                .entry(profile.to_string())
                .or_insert(now);
            let until = noted + grace;
            let mut left = unknown.iter().filter(|(_, of)| of == profile);
            let is_left = left.any(|(arq, _)| {
                observations
                    .first_seen
                    .get(arq)
                    .is_some_and(|at| *at <= until)
            });
            now >= until && !is_left
        });
        let clean: Vec<_> = clean.cloned().collect();
        observations.clear = clean.iter().map(ToString::to_string).collect();
        for profile in &clean {
            observations.losses.remove(profile.as_str());
        }
        (overdue, clean)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const GRACE: Duration = Duration::from_secs(600);

    fn unknown(arqs: &[u128]) -> BTreeMap<ArqUuid, DeviceProfileName> {
        let arqs = arqs.iter().map(|arq| Uuid::from_u128(*arq).into());
        arqs.map(|arq| (arq, profile())).collect()
    }

    fn profile() -> DeviceProfileName {
        DeviceProfileName::new("gpu").unwrap()
    }

    /// Another conductor creates an ARQ every minute, in addition to the lost one.
    #[test]
    fn requests_that_another_conductor_creates_do_not_extend_the_search() {
        let (orphans, begun) = (OrphanedArqs::default(), Instant::now());
        let mut gone_after = None;
        for minute in 0..20 {
            let now = begun + Duration::from_secs(60 * minute);
            let mut seen = vec![100 + u128::from(minute)];
            seen.extend((minute <= 10).then_some(1));
            let (overdue, clean) = orphans.classify(&unknown(&seen), &[profile()], GRACE, now);
            assert_eq!(overdue.len(), usize::from(minute == 10), "{minute}");
            if !clean.is_empty() {
                gone_after.get_or_insert(minute);
            }
        }
        assert_eq!(gone_after, Some(11));
    }

    #[test]
    fn a_loss_that_is_noted_while_what_was_lost_before_is_deleted_is_not_forgotten_with_it() {
        let (orphans, begun) = (OrphanedArqs::default(), Instant::now());
        for times in 0..2 {
            orphans.classify(&unknown(&[]), &[profile()], GRACE, begun + GRACE * times);
        }
        assert!(orphans.is_clear(&profile()));
        orphans.classify(&unknown(&[]), &[profile()], GRACE, begun + GRACE * 2);
        orphans.classify(&unknown(&[]), &[profile()], GRACE, begun + GRACE * 3);
        orphans.reset(&profile());
        assert!(!orphans.is_clear(&profile()));
    }

    #[test]
    fn orphans_are_deleted_after_the_grace_time_and_another_loss_restarts_it() {
        let (orphans, begun) = (OrphanedArqs::default(), Instant::now());
        let judge = |seen: &[u128], times: u32| {
            let now = begun + GRACE * times;
            let (overdue, clean) = orphans.classify(&unknown(seen), &[profile()], GRACE, now);
            (overdue.len(), clean.len())
        };
        assert_eq!(judge(&[1], 0), (0, 0));
        orphans.reset(&profile());
        assert_eq!(judge(&[1], 1), (1, 0));
        // The first orphan is deleted; the ARQ of the second loss may still appear.
        assert_eq!(judge(&[], 1), (0, 0));
        assert_eq!(judge(&[], 2), (0, 1));
    }
}
