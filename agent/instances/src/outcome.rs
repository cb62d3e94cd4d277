//! How the reconciliation of one instance ended.

use std::collections::BTreeMap;

use berth_agent_journal::JournalError;
use berth_model::ConsumerUuid;
use berth_virt::GuestError;

use crate::spawn::SpawnError;
use crate::transition::StopError;
use crate::undo::UndoError;

/// The guests that stand still, each with the reason.
pub type HeldGuests = BTreeMap<ConsumerUuid, String>;

/// How a guest's journey ended.
#[derive(Debug)]
pub enum ReconcileOutcome {
    /// The guest is as it should be.
    Settled,
    /// The spawn was undone, for this reason.
    Undone { reason: String },
    /// Nothing is left, and nothing is known of it.
    Gone,
    /// The agent stops; the next start goes on.
    Interrupted,
    /// It stands still for this reason, and will be tried again.
    Held { reason: BlockedReason },
}

/// Why a journey stands still.
#[derive(Debug, thiserror::Error)]
pub enum BlockedReason {
    /// The journal can be neither read nor written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Something of it cannot be undone now.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// It cannot go off for another form.
    #[error(transparent)]
    Leave(#[from] StopError),
    /// It ran before and cannot be brought back now.
    #[error("the guest cannot be brought back: {0}")]
    NotBack(#[source] Box<SpawnError>),
    /// The hypervisor does not tell its guests.
    #[error(transparent)]
    Hypervisor(GuestError),
    /// It does what it should not, and cannot be brought to rest.
    #[error("the guest runs and should not: {0}")]
    NotAtRest(#[source] GuestError),
}

/// An end in the log.
pub(crate) fn told(uuid: ConsumerUuid, end: ReconcileOutcome) {
    match end {
        ReconcileOutcome::Held { reason } => {
            tracing::debug!(guest = %uuid, reason = &reason as &dyn std::error::Error, "a guest stands still");
        }
        ReconcileOutcome::Undone { reason } => {
            tracing::warn!(guest = %uuid, reason, "a guest could not be spawned");
        }
        ReconcileOutcome::Interrupted => tracing::debug!(guest = %uuid, "the next start goes on"),
        ReconcileOutcome::Settled => tracing::info!(guest = %uuid, "the guest is as it should be"),
        ReconcileOutcome::Gone => tracing::info!(guest = %uuid, "the guest is gone"),
    }
}
