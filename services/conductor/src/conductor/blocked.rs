//! What the conductor remembers of a blocked guest until the next retry of its task.

use tokio::time::Instant;

use crate::journal::{BootRecord, BootStep, StepState};

/// A guest with a task that failed temporarily, until the retry.
#[derive(Debug, Clone)]
pub(super) struct BlockedGuest {
    pub(super) reason: String,
    /// Progress of the boot; `None` if an undo is blocked.
    pub(super) at: Option<BootProgress>,
    pub(super) rows: JournalRows,
    /// Since when it is blocked at this progress.
    pub(super) since: Instant,
    pub(super) tries: u32,
    pub(super) next: Instant,
}

/// Whether the journal's rows of the guest are readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalRows {
    Readable,
    /// The rows do not form a valid record.
    Unreadable,
}

/// Progress of a boot: the attempt and its last begun step. The retry timeout restarts with each progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BootProgress {
    attempt: u32,
    step: Option<BootStep>,
}

impl BootProgress {
    /// The progress of a record: its attempt, and the last step that is not undone.
    pub(super) fn of(record: &BootRecord) -> Self {
        let attempt = record.attempt;
        let mut steps = BootStep::ALL.iter().copied().rev();
        let has_begun = |step: &BootStep| {
            let known = record.step(*step);
            known.is_some_and(|it| it.state != StepState::Undone)
        };
        let step = steps.find(has_begun);
        Self { attempt, step }
    }
}
