//! Claims that nobody heard of: the answer was lost, or the conductor died before it came, and the guest was undone since. Placement may
//! have such a request before it still, and grant it to a guest that is not there any more. So what such a guest holds is looked at for
//! a while, and deleted; until then its UUID stays this conductor's.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_client::PlacementError;
use berth_hosts::TableError;
use berth_journeys::Journeys;
use berth_model::ConsumerUuid;
use tokio::time::Instant;

use crate::journal::{Course, JournalError};
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
    /// Looks, where it is time to; how many were deleted.
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
        let mut deleted = 0;
        for guest in guests {
            let now = Instant::now();
            let noted = *self.since().noted.entry(guest).or_insert(now);
            // A boot that is under way sees to what it holds itself.
            if journeys.is_under_way(&guest) {
                continue;
            }
            let _turn = journeys.turn(guest).await;
            let course = way.journal.guest(guest).await?.map(|record| record.course);
            let is_undone = matches!(course, None | Some(Course::Failed { .. }));
            if is_undone && way.placement.allocations(guest).await?.is_some() {
                way.placement.delete_allocations(guest).await?;
                tracing::info!(%guest, "a claim that came after its guest was undone is deleted");
                deleted += 1;
            } else if now.duration_since(noted) >= grace {
                // The row first: without it nothing is deleted that belongs to whoever has the UUID next. Where this ends between the
                // two, the guest is one of those who are nowhere.
                way.journal.no_late_claim(guest).await?;
                if is_undone {
                    way.scheduler.hosts.disown(way.own(guest)).await?;
                }
            }
        }
        Ok(deleted)
    }

    /// One was lost just now: whatever was seen so far says nothing of when it comes.
    pub(crate) fn noted(&self, guest: ConsumerUuid) {
        self.since().noted.remove(&guest);
    }

    fn since(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
