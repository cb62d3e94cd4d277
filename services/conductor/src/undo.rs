//! The way back, over the journal's rows: the guest gone at its agent, its accelerator requests unbound and deleted, its claim
//! released, in this order. What may still be running holds everything else.

use std::collections::BTreeSet;

use berth_client::placement::{Claimed, Deleted};
use berth_client::{AcceleratorError, GuestApiError, PlacementError};
use berth_hosts::{ServerGroupError, TableError};
use berth_model::{ArqState, NodeName};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::journal::{BootRecord, BootStep, JournalError, StepState};
use crate::way::Way;

/// A step that is not undone yet.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Placement did not release the claim.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The accelerator service did not unbind or delete.
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    /// The agent did not answer.
    #[error("{0}; until it says that the guest is gone, its devices and its claim stay its own")]
    Agent(#[from] GuestApiError),
    /// It was called off while it waited for the agent: something else is wanted, or the conductor stops.
    #[error("called off; what is not undone yet is in the journal")]
    Cancelled,
    /// The agent still has the guest.
    #[error("the agent of {node} still has the guest: {reason}")]
    NotGone {
        node: NodeName,
        /// What the agent says.
        reason: String,
    },
    /// What is known of the cloud's guests cannot be written.
    #[error(transparent)]
    Hosts(#[from] TableError),
    /// Its server group cannot be written.
    #[error(transparent)]
    Group(#[from] ServerGroupError),
    /// Nobody knows the node's agent.
    #[error("no agent of node {0} is known, and only it can say that the guest is gone")]
    NoAgent(NodeName),
}

/// Undoes all steps that may have acted, of every attempt. `cancel` ends it in its wait for the agent.
pub(crate) async fn undo(
    way: &Way,
    record: &BootRecord,
    cancel: &CancellationToken,
) -> Result<(), UndoError> {
    let guest = record.request.uuid();
    for (attempt, step) in record.acted() {
        let place = (guest, attempt);
        let Some(was) = record.steps.get(&(attempt, step)) else {
            continue;
        };
        // What a step was about must survive: the undo may be killed, too.
        let detail = || was.detail.clone();
        if was.state != StepState::Undoing {
            // Whether it was done, or only begun, decides below, also the second time.
            if was.state == StepState::Done || step != BootStep::Claim {
                way.note(place, step, StepState::Undoing, detail()).await?;
            }
        }
        match step {
            BootStep::Build => unbuild(way, record, attempt, cancel).await?,
            BootStep::Bind => unbind(way, record, attempt).await?,
            BootStep::Arqs => delete_requests(way, record, attempt).await?,
            BootStep::Claim => release(way, record, attempt, was.state).await?,
        }
        way.note(place, step, StepState::Undone, detail()).await?;
    }
    leave_group(way, record).await?;
    // Last: whoever asks for the UUID from now on finds nothing of this guest. Where a claim may still come, it stays one's own.
    if !way.may_come_late(guest).await? {
        way.scheduler.hosts.disown(way.own(guest)).await?;
    }
    Ok(())
}

/// Takes the guest out of its server group, where it may have been put in: between the note of a claim and the claim. Who never
/// came so far put nobody in, and a guest of this UUID that is there is another conductor's.
async fn leave_group(way: &Way, record: &BootRecord) -> Result<(), UndoError> {
    let Some(group) = record.request.server_group() else {
        return Ok(());
    };
    let mut steps = record.steps.keys();
    if !steps.any(|(_, step)| *step == BootStep::Claim) {
        return Ok(());
    }
    let member = way.member(group, record.request.uuid());
    Ok(way.scheduler.hosts.unplace(member).await?)
}

/// Has the guest deleted at its agent, and waits until it is gone there.
async fn unbuild(
    way: &Way,
    record: &BootRecord,
    attempt: u32,
    cancel: &CancellationToken,
) -> Result<(), UndoError> {
    let Some(chosen) = record.chosen(attempt) else {
        return Ok(());
    };
    let node = &chosen.node;
    let agent = way.agents.agent(node);
    let agent = agent.ok_or_else(|| UndoError::NoAgent(node.clone()))?;
    let guest = record.request.uuid();
    let begun = Instant::now();
    // It looks at its hypervisor before it says that; that it does not know the guest alone is not enough: its journal may have
    // been lost since.
    while agent.delete(guest).await? != Deleted::AlreadyGone {
        while let Some(told) = agent.guest(guest).await? {
            if begun.elapsed() >= way.options.delete_wait {
                let reason = told.reason.unwrap_or(told.status);
                let node = node.clone();
                return Err(UndoError::NotGone { node, reason });
            }
            tokio::select! {
                () = cancel.cancelled() => return Err(UndoError::Cancelled),
                () = sleep(way.options.poll) => {}
            }
        }
        if begun.elapsed() >= way.options.delete_wait {
            let reason = "it takes the delete each time, and shows no guest".to_owned();
            let node = node.clone();
            return Err(UndoError::NotGone { node, reason });
        }
    }
    Ok(())
}

/// Gives the handles back. A request that is not bound, or not there, has none.
async fn unbind(way: &Way, record: &BootRecord, attempt: u32) -> Result<(), UndoError> {
    let Some(ours) = record.requests(attempt) else {
        return Ok(());
    };
    let told = way
        .accelerators
        .arqs_of_instance(record.request.uuid())
        .await?;
    let bound = told.iter().filter(|told| {
        let state = told.arq.as_ref().map(|arq| &arq.state);
        let holds = !matches!(state, Ok(ArqState::Initial | ArqState::Unbound));
        ours.contains_key(&told.uuid) && holds
    });
    let bound: BTreeSet<_> = bound.map(|told| told.uuid).collect();
    if bound.is_empty() {
        return Ok(());
    }
    match way.accelerators.unbind_arqs(&bound).await {
        Ok(()) => Ok(()),
        // Not in a state to be unbound: the delete that follows ends it from any.
        Err(
            AcceleratorError::Refused(_)
            | AcceleratorError::Conflict(_)
            | AcceleratorError::NotFound(_),
        ) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn delete_requests(way: &Way, record: &BootRecord, attempt: u32) -> Result<(), UndoError> {
    match record.requests(attempt) {
        Some(ours) => {
            for arq in ours.keys() {
                way.accelerators.delete_arq(*arq).await?;
            }
        }
        None => {
            // They may have been made, and nobody knows their names.
            if let Some(profile) = record.request.profile() {
                way.stray(profile).await?;
            }
        }
    }
    Ok(())
}

async fn release(
    way: &Way,
    record: &BootRecord,
    attempt: u32,
    was: StepState,
) -> Result<(), UndoError> {
    let Some(chosen) = record.chosen(attempt) else {
        return Ok(());
    };
    let guest = record.request.uuid();
    if was != StepState::Done {
        // Nobody heard what became of it, or of its release before this one, and nobody may hear what becomes of it yet.
        way.late_claim(guest).await?;
    }
    // The UUID is this conductor's: whatever it holds was asked for by a boot of this guest.
    if was == StepState::Begun && way.placement.allocations(guest).await?.is_none() {
        return Ok(());
    }
    let claimed = Claimed::noted_before(guest, chosen.candidate.clone());
    match claimed.release(&way.placement).await {
        Ok(Deleted::Deleted | Deleted::AlreadyGone) => Ok(()),
        Err(not_released) => Err(not_released.reason.into()),
    }
}
