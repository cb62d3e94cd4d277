//! The first stage of a turn: the guest goes off, and what is made anew is removed.

use std::time::Duration;

use berth_virt::{GuestState, PowerAction, VirtDriver};

use crate::transition::error::LeaveError;
use berth_agent_journal::{GuestRecord, Life, SpawnStep, Stage, StepRecord, StepState, Turning};
use crate::resources::GuestResources;
use crate::spawn_context::{Way, is_ours};

/// Does the stage, where the guest is in it, and writes down that the next one begins.
pub(crate) async fn leave<D: VirtDriver, R: GuestResources>(
    way: &Way<D, R>,
    record: &GuestRecord,
) -> Result<(), LeaveError> {
    let Some(Turning {
        turn,
        stage:
            Stage::Leaving {
                grace_seconds,
                discard,
                anew,
            },
    }) = &record.life.turning
    else {
        return Ok(());
    };
    let uuid = record.request.uuid();
    if let Some(found) = way.on_host(uuid).await? {
        if !is_ours(&found, &record.request) {
            return Err(LeaveError::Foreign { uuid });
        }
        if found.state != GuestState::ShutOff {
            let grace = Duration::from_secs((*grace_seconds).into());
            let _ = way.driver.power(uuid, PowerAction::Stop { grace }).await?;
        }
    }
    way.resources.remove(uuid, discard).await?;
    let life = Life {
        turning: Some(Turning {
            turn: *turn,
            stage: Stage::Making { anew: *anew },
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
    Ok(way.journal.live(uuid, &life, &steps).await?)
}
