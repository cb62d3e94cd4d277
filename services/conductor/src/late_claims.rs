//! Claims, and releases of them, that nobody heard of: the answer was lost, or the conductor died before it came. Placement may have
//! such a request before it still, and grant it to a guest that is not there any more, or take from one what it has claimed since. So
//! what such a guest holds is looked at for a while, and deleted, or claimed again; until then its UUID stays this conductor's.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_client::PlacementError;
use berth_client::placement::ClaimError;
use berth_hosts::TableError;
use berth_journeys::Journeys;
use berth_model::ConsumerUuid;
use tokio::time::Instant;

use crate::journal::{BootRecord, Course, JournalError};
use crate::looks::Looks;
use crate::way::Way;

/// Late claims that could not be looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LateClaimsError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Placement did not answer as hoped.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// It did not claim again.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// Whose the guest is cannot be written.
    #[error("whose guest it is cannot be written: {0}")]
    Hosts(#[from] TableError),
}

#[derive(Default)]
struct Since {
    /// Since when it is known that one may come.
    noted: BTreeMap<ConsumerUuid, Instant>,
    looks: Looks,
}

/// What was seen so far. A restart begins anew.
#[derive(Default)]
pub(crate) struct LateClaims(Mutex<Since>);

impl LateClaims {
    /// Looks, where it is time to; how many were deleted or claimed again.
    pub(crate) async fn look(
        &self,
        way: &Way,
        journeys: &Journeys<ConsumerUuid>,
    ) -> Result<usize, LateClaimsError> {
        let grace = way.options.stray_grace;
        if !self.since().looks.is_due(grace, Instant::now()) {
            return Ok(0);
        }
        let guests = way.journal.late_claims().await?;
        self.since().noted.retain(|guest, _| guests.contains(guest));
        let mut mended = 0;
        for guest in guests {
            let now = Instant::now();
            let noted = *self.since().noted.entry(guest).or_insert(now);
            // A boot that is under way sees to what it holds itself.
            if journeys.is_under_way(&guest) {
                continue;
            }
            let _turn = journeys.turn(guest).await;
            let record = match way.journal.guest(guest).await {
                // What it should hold is not known; the others go on.
                Err(JournalError::Unreadable(_)) => continue,
                record => record?,
            };
            let course = record.as_ref().map(|record| &record.course);
            let is_undone = matches!(course, None | Some(Course::Failed { .. }));
            let is_mended = match &record {
                Some(record) if record.course == Course::Active => {
                    claimed_again(way, record).await?
                }
                _ if is_undone => deleted(way, guest).await?,
                _ => false,
            };
            if is_mended {
                mended += 1;
            } else if now.duration_since(noted) >= grace {
                // The row first: without it nothing is deleted that belongs to whoever has the UUID next. Where this ends between the
                // two, the guest is one of those who are nowhere.
                way.journal.no_late_claim(guest).await?;
                if is_undone {
                    way.scheduler.hosts.disown(way.own(guest)).await?;
                }
            }
        }
        Ok(mended)
    }

    /// One was lost just now: whatever was seen so far says nothing of when it comes.
    pub(crate) fn noted(&self, guest: ConsumerUuid) {
        self.since().noted.remove(&guest);
    }

    fn since(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes what came after the guest was undone, where something did.
async fn deleted(way: &Way, guest: ConsumerUuid) -> Result<bool, LateClaimsError> {
    if way.placement.allocations(guest).await?.is_none() {
        return Ok(false);
    }
    way.placement.delete_allocations(guest).await?;
    tracing::info!(%guest, "a claim that came after its guest was undone is deleted");
    Ok(true)
}

/// Claims for a guest that runs what it was built on, where a release that came late took it.
async fn claimed_again(way: &Way, record: &BootRecord) -> Result<bool, LateClaimsError> {
    let guest = record.request.uuid();
    let Some(chosen) = record.chosen(record.attempt) else {
        return Ok(false);
    };
    if way.placement.allocations(guest).await?.is_some() {
        return Ok(false);
    }
    let candidate = chosen.candidate.clone();
    let claimant = record.request.claimant();
    match candidate.claim(&way.placement, &claimant).await {
        Ok(claimed) => {
            let _of_the_guest = claimed.built();
            tracing::info!(%guest, "what a release that came late took is claimed again");
            Ok(true)
        }
        Err(error @ (ClaimError::Taken(_) | ClaimError::HoldsOther { .. })) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(%guest, error, "a running guest holds no allocations");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
