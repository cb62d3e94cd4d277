//! Accelerator requests that were made and whose names nobody heard: the answer was lost, or the conductor died before it was
//! written down. They are bound to nothing and hold no device. The service cannot tell them from requests that somebody else
//! makes at this moment, so they are looked at for a while before they are deleted; and only where such a loss was noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::AcceleratorError;
use berth_model::{ArqState, ArqUuid, DeviceProfileName};
use tokio::time::Instant;

use crate::journal::JournalError;
use crate::looks::Looks;
use crate::way::Way;

/// Strays that could not be looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StraysError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The accelerator service did not answer as hoped.
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
}

/// Since when things are as they are.
#[derive(Default)]
struct Since {
    /// A request is there that nobody knows.
    seen: BTreeMap<ArqUuid, Instant>,
    /// It is known that there may be some of this profile.
    noted: BTreeMap<String, Instant>,
    /// Of these profiles nothing was left at the last look, and nothing was lost since.
    clean: BTreeSet<String>,
    looks: Looks,
}

/// What was seen so far. A restart begins anew.
#[derive(Default)]
pub(crate) struct Strays {
    since: Mutex<Since>,
    /// Held by who writes down that there may be some of a profile, or that there are none.
    noting: tokio::sync::Mutex<()>,
}

impl Strays {
    /// Looks, where it is time to; how many were deleted.
    pub(crate) async fn look(&self, way: &Way) -> Result<usize, StraysError> {
        if !self
            .since()
            .looks
            .is_due(way.options.stray_grace, Instant::now())
        {
            return Ok(0);
        }
        let profiles = way.journal.strays().await?;
        if profiles.is_empty() {
            return Ok(0);
        }
        let told = way.accelerators.arqs().await?;
        // The journal after the service: what was made in between is in neither, or in both.
        let known = way.journal.requests().await?;
        let unknown = told.into_iter().filter_map(|told| {
            let arq = told.arq.ok()?;
            let stray = arq.state == ArqState::Initial
                && profiles.contains(&arq.device_profile)
                && !known.contains(&arq.uuid);
            stray.then_some((arq.uuid, arq.device_profile))
        });
        let unknown: BTreeMap<ArqUuid, DeviceProfileName> = unknown.collect();
        let (doomed, clean) =
            self.judge(&unknown, &profiles, way.options.stray_grace, Instant::now());
        for arq in &doomed {
            way.accelerators.delete_arq(*arq).await?;
            tracing::info!(%arq, "an accelerator request that nobody heard of is deleted");
        }
        let _noting = self.noting().await;
        for profile in clean {
            if self.is_clean(&profile) {
                way.journal.no_stray(&profile).await?;
            }
        }
        Ok(doomed.len())
    }

    /// The turn of who writes down what is lost, or that nothing is.
    pub(crate) async fn noting(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.noting.lock().await
    }

    /// Whether nothing was lost since it was judged so.
    fn is_clean(&self, profile: &DeviceProfileName) -> bool {
        self.since().clean.contains(profile.as_str())
    }

    /// An answer was lost just now: whatever was seen so far says nothing of what it made.
    pub(crate) fn noted(&self, profile: &DeviceProfileName) {
        let mut since = self.since();
        since.noted.remove(profile.as_str());
        since.clean.remove(profile.as_str());
    }

    fn since(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been unknown for long enough; and the profiles of which nothing is left that was there within so long after the loss
    /// was noted. What comes later is another conductor's, and is no reason to look for ever.
    fn judge(
        &self,
        unknown: &BTreeMap<ArqUuid, DeviceProfileName>,
        profiles: &[DeviceProfileName],
        grace: Duration,
        now: Instant,
    ) -> (Vec<ArqUuid>, Vec<DeviceProfileName>) {
        let mut since = self.since();
        since.seen.retain(|arq, _| unknown.contains_key(arq));
        let doomed = unknown.keys().copied().filter(|arq| {
            let first = *since.seen.entry(*arq).or_insert(now);
            now.duration_since(first) >= grace
        });
        let doomed = doomed.collect();
        let clean = profiles.iter().filter(|profile| {
            let noted = *since.noted.entry(profile.to_string()).or_insert(now);
            let until = noted + grace;
            let mut left = unknown.iter().filter(|(_, of)| of == profile);
            let is_left = left.any(|(arq, _)| since.seen.get(arq).is_some_and(|at| *at <= until));
            now >= until && !is_left
        });
        let clean: Vec<_> = clean.cloned().collect();
        since.clean = clean.iter().map(ToString::to_string).collect();
        for profile in &clean {
            since.noted.remove(profile.as_str());
        }
        (doomed, clean)
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

    /// Beside the one that is lost another conductor makes one a minute.
    #[test]
    fn what_another_conductor_makes_all_the_time_is_no_reason_to_look_for_ever() {
        let (strays, begun) = (Strays::default(), Instant::now());
        let mut gone_after = None;
        for minute in 0..20 {
            let now = begun + Duration::from_secs(60 * minute);
            let mut seen = vec![100 + u128::from(minute)];
            seen.extend((minute <= 10).then_some(1));
            let (doomed, clean) = strays.judge(&unknown(&seen), &[profile()], GRACE, now);
            assert_eq!(doomed.len(), usize::from(minute == 10), "{minute}");
            if !clean.is_empty() {
                gone_after.get_or_insert(minute);
            }
        }
        assert_eq!(gone_after, Some(11));
    }

    #[test]
    fn a_loss_that_is_noted_while_what_was_lost_before_is_deleted_is_not_forgotten_with_it() {
        let (strays, begun) = (Strays::default(), Instant::now());
        for times in 0..2 {
            strays.judge(&unknown(&[]), &[profile()], GRACE, begun + GRACE * times);
        }
        assert!(strays.is_clean(&profile()));
        strays.judge(&unknown(&[]), &[profile()], GRACE, begun + GRACE * 2);
        strays.judge(&unknown(&[]), &[profile()], GRACE, begun + GRACE * 3);
        strays.noted(&profile());
        assert!(!strays.is_clean(&profile()));
    }

    #[test]
    fn what_nobody_knows_is_deleted_once_it_was_there_for_long_and_another_loss_begins_anew() {
        let (strays, begun) = (Strays::default(), Instant::now());
        let judge = |seen: &[u128], times: u32| {
            let now = begun + GRACE * times;
            let (doomed, clean) = strays.judge(&unknown(seen), &[profile()], GRACE, now);
            (doomed.len(), clean.len())
        };
        assert_eq!(judge(&[1], 0), (0, 0));
        strays.noted(&profile());
        assert_eq!(judge(&[1], 1), (1, 0));
        // It is gone, and what was lost last may still come.
        assert_eq!(judge(&[], 1), (0, 0));
        assert_eq!(judge(&[], 2), (0, 1));
    }
}
