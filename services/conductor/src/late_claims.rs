//! Repairs the allocations of guests after unanswered claims or releases.
//!
//! Placement may apply such a request later. It may grant a claim for a guest that was already undone, or release the
//! newer claim of a running guest. Therefore this collector observes the guest for a grace period: it deletes late
//! claims of undone guests, and restores missing claims of active guests. Until then, the guest's UUID stays owned by
//! this conductor.

use berth_client::PlacementError;
use berth_client::placement::ClaimError;
use berth_hosts::HostTableError;
use berth_keyed_tasks::KeyedTasks;
use berth_model::ConsumerUuid;

use crate::boot_context::BootContext;
use crate::journal::{BootGoal, BootRecord, JournalError};

/// Error of a scan for late claims.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LateClaimsError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("failed to write the guest's owner: {0}")]
    Hosts(#[from] HostTableError),
}

/// Scans if a scan is due. Returns the number of deleted and restored claims.
pub(crate) async fn collect(
    context: &BootContext,
    tasks: &KeyedTasks<ConsumerUuid>,
) -> Result<usize, LateClaimsError> {
    let (late, grace) = (&context.late_claims, context.options.orphan_grace);
    if !late.is_due(grace) {
        return Ok(0);
    }
    let guests = context.journal.late_claims().await?;
    late.retain(|guest| guests.contains(&guest));
    let mut repaired = 0;
    for guest in guests {
        let is_over = late.is_over(guest, grace);
        // A running boot handles its own claims.
        if tasks.is_active(&guest) {
            continue;
        }
        let _guard = tasks.lock(guest).await;
        let record = match context.journal.guest(guest).await {
            // The guest's goal is unknown; continue with the other guests.
            Err(JournalError::Unreadable(_)) => continue,
            record => record?,
        };
        let goal = record.as_ref().map(|record| &record.goal);
        let is_undone = matches!(goal, None | Some(BootGoal::Failed { .. }));
        let is_repaired = match &record {
            Some(record) if record.goal == BootGoal::Active => {
                restore_claim(context, record).await?
            }
            _ if is_undone => delete_claim(context, guest).await?,
            _ => false,
        };
        if is_repaired {
            repaired += 1;
        } else if is_over {
            // Delete the row first: without the row, nothing is deleted that belongs to the next
            // owner of the UUID. If the conductor stops in between, `stale_members` removes the
            // ownership.
            context.journal.clear_late_claim(guest).await?;
            if is_undone && !context.has_late_effect(guest).await? {
                context
                    .scheduler
                    .hosts
                    .release_guest(context.owned(guest))
                    .await?;
            }
        }
    }
    Ok(repaired)
}

/// Deletes the allocations of an undone guest. Returns whether there were any.
async fn delete_claim(context: &BootContext, guest: ConsumerUuid) -> Result<bool, LateClaimsError> {
    if context.placement.allocations(guest).await?.is_none() {
        return Ok(false);
    }
    context.placement.delete_allocations(guest).await?;
    tracing::info!(%guest, "deleted a late claim of a guest that was already undone");
    Ok(true)
}

/// Restores the claim of a running guest if a late release removed it. Returns whether it did.
async fn restore_claim(
    context: &BootContext,
    record: &BootRecord,
) -> Result<bool, LateClaimsError> {
    let guest = record.request.uuid();
    let Some(chosen) = record.chosen(record.attempt) else {
        return Ok(false);
    };
    if context.placement.allocations(guest).await?.is_some() {
        return Ok(false);
    }
    let candidate = chosen.candidate.clone();
    let claimant = record.request.claimant();
    match candidate.claim(&context.placement, &claimant).await {
        Ok(claimed) => {
            let _of_the_guest = claimed.built();
            tracing::info!(%guest, "restored the claim of a running guest after a late release");
            Ok(true)
        }
        Err(error @ (ClaimError::Taken(_) | ClaimError::HoldsOther { .. })) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(%guest, error, "failed to restore the claim of a running guest: it has no allocations");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
