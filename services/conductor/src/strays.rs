//! Accelerator requests that were made and whose names nobody heard: the answer was lost, or the conductor died before it was
//! written down. They are bound to nothing and hold no device. The service cannot tell them from requests that somebody else
//! makes at this moment, so they are looked at for a while before they are deleted; and only where such a loss was noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use berth_client::AcceleratorError;
use berth_model::{ArqState, ArqUuid, DeviceProfileName};
use tokio::time::Instant;

use crate::journal::JournalError;
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
    /// There is none of this profile.
    clean: BTreeMap<String, Instant>,
}

/// What was seen so far. A restart begins anew.
#[derive(Default)]
pub(crate) struct Strays(Mutex<Since>);

impl Strays {
    /// Looks once; how many were deleted.
    pub(crate) async fn look(&self, way: &Way) -> Result<usize, StraysError> {
        let profiles = way.journal.strays().await?;
        if profiles.is_empty() {
            return Ok(0);
        }
        let told = way.accelerators.arqs().await?;
        // The journal after the service: what was made in between is in neither, or in both.
        let known: BTreeSet<ArqUuid> = way
            .journal
            .guests()
            .await?
            .iter()
            .flat_map(|record| (1..=record.attempt).filter_map(|n| record.requests(n)))
            .flat_map(|requests| requests.keys().copied())
            .collect();
        let unknown = told.into_iter().filter_map(|told| {
            let arq = told.arq.ok()?;
            let stray = arq.state == ArqState::Initial
                && profiles.contains(&arq.device_profile)
                && !known.contains(&arq.uuid);
            stray.then_some((arq.uuid, arq.device_profile))
        });
        let unknown: BTreeMap<ArqUuid, DeviceProfileName> = unknown.collect();
        let (doomed, clean) = self.judge(&unknown, &profiles, way.options.stray_grace);
        for arq in &doomed {
            way.accelerators.delete_arq(*arq).await?;
            tracing::info!(%arq, "an accelerator request that nobody heard of is deleted");
        }
        for profile in clean {
            way.journal.no_stray(&profile).await?;
        }
        Ok(doomed.len())
    }

    /// What has been unknown for long enough, and which profiles have been clean for as long.
    fn judge(
        &self,
        unknown: &BTreeMap<ArqUuid, DeviceProfileName>,
        profiles: &[DeviceProfileName],
        grace: std::time::Duration,
    ) -> (Vec<ArqUuid>, Vec<DeviceProfileName>) {
        let now = Instant::now();
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.seen.retain(|arq, _| unknown.contains_key(arq));
        let doomed = unknown.keys().copied().filter(|arq| {
            let first = *since.seen.entry(*arq).or_insert(now);
            now.duration_since(first) >= grace
        });
        let doomed = doomed.collect();
        let dirty: BTreeSet<_> = unknown.values().collect();
        let clean = profiles.iter().filter(|profile| {
            if dirty.contains(profile) {
                since.clean.remove(profile.as_str());
                return false;
            }
            let first = *since.clean.entry(profile.to_string()).or_insert(now);
            now.duration_since(first) >= grace
        });
        let clean: Vec<_> = clean.cloned().collect();
        for profile in &clean {
            since.clean.remove(profile.as_str());
        }
        (doomed, clean)
    }
}
