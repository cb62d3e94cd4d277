//! The outcome of reconciling one instance.

use std::collections::BTreeMap;

use berth_agent_journal::JournalError;
use berth_model::ConsumerUuid;
use berth_virt::GuestError;

use crate::spawn::SpawnError;
use crate::transition::StopError;
use crate::undo::UndoError;

/// The blocked instances, with the reasons.
pub type BlockedGuests = BTreeMap<ConsumerUuid, String>;

/// How the reconciliation of an instance ended.
#[derive(Debug)]
pub enum ReconcileOutcome {
    /// The instance has reached its goal.
    Settled,
    /// The spawn failed for this reason and was undone.
    Undone { reason: String },
    /// The instance is removed, and its record is deleted.
    Gone,
    /// Ports of the instance are not bound to their network functions yet; their binding continues the spawn.
    AwaitsPorts,
    /// The agent stops; its next start continues.
    Interrupted,
    /// The instance cannot continue now. The next sync retries.
    Blocked { reason: BlockedReason },
}

/// Why the reconciliation of an instance cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum BlockedReason {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Undoing the instance failed.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// The guest could not be stopped for a transition.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// An instance that has run before could not be started again.
    #[error("the guest cannot be started again: {0}")]
    StartFailed(#[source] Box<SpawnError>),
    /// The hypervisor did not list its guests.
    #[error(transparent)]
    Hypervisor(GuestError),
    /// The guest should be stopped, suspended or paused, and that failed.
    #[error("the guest is running and cannot be stopped: {0}")]
    StopFailed(#[source] GuestError),
}

/// Logs how the reconciliation of an instance ended.
pub(crate) fn log_outcome(uuid: ConsumerUuid, end: ReconcileOutcome) {
    match end {
        ReconcileOutcome::Blocked { reason } => {
            tracing::debug!(guest = %uuid, reason = &reason as &dyn std::error::Error, "reconciliation blocked");
        }
        ReconcileOutcome::Undone { reason } => {
            tracing::warn!(guest = %uuid, reason, "spawn failed and was undone");
        }
        ReconcileOutcome::Interrupted => {
            tracing::debug!(guest = %uuid, "reconciliation interrupted; the next start continues")
        }
        ReconcileOutcome::AwaitsPorts => {
            tracing::debug!(guest = %uuid, "instance waits until its ports are bound to their network functions")
        }
        ReconcileOutcome::Settled => tracing::info!(guest = %uuid, "instance reached its goal"),
        ReconcileOutcome::Gone => tracing::info!(guest = %uuid, "instance removed"),
    }
}
