//! The `Stopping` phase of a transition: stops the guest and removes the disks that will be recreated.

use std::time::Duration;

use berth_agent_journal::{
    GuestRecord, InstanceOverrides, JournalError, PendingTransition, SpawnStep, StepRecord,
    StepState, TransitionPhase,
};
use berth_model::ConsumerUuid;
use berth_virt::{GuestError, PowerAction, PowerState, VirtDriver};

use crate::resources::{GuestResources, ResourceError};
use crate::spawn_context::{SpawnContext, is_ours};

/// Runs the phase if the guest is in it, and journals the start of the `Rebuilding` phase.
pub(crate) async fn stop_for_transition<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
) -> Result<(), StopError> {
    let Some(PendingTransition {
        kind,
        phase:
            TransitionPhase::Stopping {
                grace_seconds,
                discard,
                recreate,
            },
    }) = &record.overrides.transition
    else {
        return Ok(());
    };
    let uuid = record.request.uuid();
    if let Some(found) = context.on_host(uuid).await? {
        if !is_ours(&found, &record.request) {
            return Err(StopError::Foreign { uuid });
        }
        if found.state != PowerState::ShutOff {
            let grace = Duration::from_secs((*grace_seconds).into());
            let _ = context
                .driver
                .power(uuid, PowerAction::Stop { grace })
                .await?;
        }
    }
    context.resources.remove(uuid, discard).await?;
    let overrides = InstanceOverrides {
        transition: Some(PendingTransition {
            kind: *kind,
            phase: TransitionPhase::Rebuilding {
                recreate: *recreate,
            },
        }),
        ..record.overrides.clone()
    };
    let begun = |detail: &str| StepRecord {
        state: StepState::Begun,
        detail: detail.to_owned(),
    };
    let steps = [
        (SpawnStep::Define, begun("")),
        (SpawnStep::Start, begun(record.ran_in())),
    ];
    Ok(context
        .journal
        .record_overrides(uuid, &overrides, &steps)
        .await?)
}

/// Why a guest could not be stopped for a transition.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error("the guest cannot be stopped: {0}")]
    Driver(#[from] GuestError),
    /// Another guest has the UUID.
    #[error("guest {uuid} on the hypervisor was not created for this request; it was not changed")]
    Foreign { uuid: ConsumerUuid },
    #[error(transparent)]
    Resource(#[from] ResourceError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}
