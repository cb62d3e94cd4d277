//! The first stage of a turn: the guest goes off, and what is made anew is removed.

use std::time::Duration;

use berth_agent_journal::{
    GuestRecord, InstanceOverrides, JournalError, PendingTransition, SpawnStep, StepRecord,
    StepState, TransitionPhase,
};
use berth_model::ConsumerUuid;
use berth_virt::{GuestError, GuestState, PowerAction, VirtDriver};

use crate::resources::{GuestResources, ResourceError};
use crate::spawn_context::{SpawnContext, is_ours};

/// Does the stage, where the guest is in it, and writes down that the next one begins.
pub(crate) async fn leave<D: VirtDriver, R: GuestResources>(
    context: &SpawnContext<D, R>,
    record: &GuestRecord,
) -> Result<(), StopError> {
    let Some(PendingTransition {
        turn,
        stage:
            TransitionPhase::Stopping {
                grace_seconds,
                discard,
                anew,
            },
    }) = &record.life.turning
    else {
        return Ok(());
    };
    let uuid = record.request.uuid();
    if let Some(found) = context.on_host(uuid).await? {
        if !is_ours(&found, &record.request) {
            return Err(StopError::Foreign { uuid });
        }
        if found.state != GuestState::ShutOff {
            let grace = Duration::from_secs((*grace_seconds).into());
            let _ = context
                .driver
                .power(uuid, PowerAction::Stop { grace })
                .await?;
        }
    }
    context.resources.remove(uuid, discard).await?;
    let life = InstanceOverrides {
        turning: Some(PendingTransition {
            turn: *turn,
            stage: TransitionPhase::Rebuilding { anew: *anew },
        }),
        ..record.life.clone()
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
        .record_overrides(uuid, &life, &steps)
        .await?)
}

/// Why a guest does not go off for another form.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The hypervisor does not let it.
    #[error("the guest cannot be switched off: {0}")]
    Driver(#[from] GuestError),
    /// There is another guest of its UUID.
    #[error("guest {uuid} is on the hypervisor and is another's; it was left alone")]
    Foreign { uuid: ConsumerUuid },
    /// A file cannot be removed.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}
