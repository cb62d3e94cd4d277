//! The reconcile task of one guest: reads its goal from the journal and acts until the goal is reached.
//!
//! ```text
//! Boot --success--> Active
//!   \\--failure--> Undo --Retry--> Boot (next attempt)
//!                   \\---Fail--> Failed
//! Delete --undo of all steps--> gone
//! ```

use berth_keyed_tasks::KeyGuard;
use berth_model::ConsumerUuid;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Conductor;
use super::blocked::{BlockedGuest, BootProgress, JournalRows};
use super::failure_decision::{FailureDecision, RetryBudget, decide};
use crate::boot::{BootError, RequestedBoot};
use crate::journal::{
    AfterUndo, BootGoal, BootRecord, FailedAttempt, JournalError, user_fault_of_attempts,
};
use crate::undo::{BootUndoError, undo};

/// Outcome of one run of a guest's reconcile task.
#[derive(Debug)]
pub enum GuestRunOutcome {
    Active,
    /// The boot failed for this reason, and everything is undone.
    Failed {
        reason: String,
    },
    /// The guest is deleted, or was never known.
    Gone,
    /// The conductor is stopping; the next start continues.
    Interrupted,
    /// Blocked for this reason; retried later.
    Blocked {
        reason: String,
    },
}

/// Why a guest is blocked.
#[derive(Debug, thiserror::Error)]
enum BlockedRun {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Undo(#[from] BootUndoError),
    /// The boot failed at this progress.
    #[error("{0}")]
    Boot(#[source] BootError, BootProgress),
}

impl Conductor {
    /// Starts the guest's task, unless one is already waiting to start.
    pub(super) fn spawn_run(&self, uuid: ConsumerUuid) {
        let conductor = self.clone();
        self.inner
            .tasks
            .spawn_if_idle(uuid, move |turn| async move {
                log_outcome(uuid, &conductor.run_guest(&turn, uuid).await);
            });
    }

    /// Runs the guest's task to its outcome. Only one task per guest runs at a time.
    pub async fn reconcile_guest(&self, uuid: ConsumerUuid) -> GuestRunOutcome {
        let turn = self.inner.tasks.lock(uuid).await;
        self.run_guest(&turn, uuid).await
    }

    async fn run_guest(
        &self,
        turn: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> GuestRunOutcome {
        let mut at = None;
        let mut rows = JournalRows::Readable;
        let end = match self.advance_guest(turn, uuid).await {
            Ok(end) => end,
            Err(reason) => {
                if let BlockedRun::Journal(error)
                | BlockedRun::Undo(BootUndoError::Journal(error)) = &reason
                {
                    self.inner.journal_health.record_write_error(error);
                    if matches!(error, JournalError::Unreadable(_)) {
                        rows = JournalRows::Unreadable;
                    }
                }
                if let BlockedRun::Boot(_, progress) = &reason {
                    at = Some(*progress);
                }
                GuestRunOutcome::Blocked {
                    reason: reason.to_string(),
                }
            }
        };
        self.remember_outcome(uuid, &end, at, rows);
        end
    }

    /// Remembers the outcome in memory: a blocked guest with its next retry, any other guest as not blocked.
    fn remember_outcome(
        &self,
        uuid: ConsumerUuid,
        end: &GuestRunOutcome,
        at: Option<BootProgress>,
        rows: JournalRows,
    ) {
        self.inner.context.set_image_download(uuid, None);
        let mut held = self.blocked_guests();
        if let GuestRunOutcome::Blocked { reason } = end {
            let options = &self.inner.context.options;
            let now = Instant::now();
            let before = held.get(&uuid);
            // A failure outside a boot does not change the progress.
            let at = at.or(before.and_then(|it| it.at));
            let before = before.filter(|it| it.at == at);
            let (since, tries) = before.map_or((now, 0), |it| (it.since, it.tries));
            let pause = options.retry_delay.saturating_mul(1 << tries.min(16));
            let blocked_guest = BlockedGuest {
                reason: reason.clone(),
                at,
                rows,
                since,
                tries: tries + 1,
                next: now + pause.min(options.max_retry_delay),
            };
            held.insert(uuid, blocked_guest);
        } else {
            held.remove(&uuid);
        }
    }

    /// Whether the boot was blocked at the same progress for the whole retry timeout.
    fn retry_budget(&self, uuid: ConsumerUuid, at: BootProgress) -> RetryBudget {
        let budget = self.inner.context.options.retry_timeout;
        let held = self.blocked_guests();
        let held = held.get(&uuid).filter(|held| held.at == Some(at));
        match held.is_some_and(|held| held.since.elapsed() >= budget) {
            true => RetryBudget::Exhausted,
            false => RetryBudget::Remaining,
        }
    }

    async fn advance_guest(
        &self,
        turn: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> Result<GuestRunOutcome, BlockedRun> {
        let context = &self.inner.context;
        loop {
            // Take the token before reading the goal: a goal that is written later cancels it.
            let cancel = turn.interrupt_token();
            let Some(record) = context.journal.guest(uuid).await? else {
                return Ok(GuestRunOutcome::Gone);
            };
            match record.goal.clone() {
                BootGoal::Active => return Ok(GuestRunOutcome::Active),
                BootGoal::Failed { reason, .. } => return Ok(GuestRunOutcome::Failed { reason }),
                BootGoal::Boot => {
                    if self.boot(record, &cancel).await? == BootRunOutcome::Interrupted {
                        return Ok(GuestRunOutcome::Interrupted);
                    }
                }
                BootGoal::Undo { failed, then } => {
                    match self.undo_boot(&record, &cancel).await? {
                        UndoOutcome::Complete => {}
                        UndoOutcome::GoalChanged => continue,
                        UndoOutcome::Interrupted => return Ok(GuestRunOutcome::Interrupted),
                    }
                    match then {
                        AfterUndo::Retry => {
                            context.journal.begin_next_attempt(uuid, &failed).await?
                        }
                        AfterUndo::Fail => {
                            let reason = operator_reasons(&record.failures, &failed);
                            let user_message =
                                Some(user_fault_of_attempts(uuid, &record.failures, &failed));
                            let goal = BootGoal::Failed {
                                reason,
                                user_message,
                            };
                            context.journal.set_goal(uuid, &goal).await?;
                        }
                    }
                }
                BootGoal::Delete => {
                    match self.undo_boot(&record, &cancel).await? {
                        UndoOutcome::Complete => {}
                        UndoOutcome::GoalChanged => continue,
                        UndoOutcome::Interrupted => return Ok(GuestRunOutcome::Interrupted),
                    }
                    context.journal.delete_guest(uuid).await?;
                    return Ok(GuestRunOutcome::Gone);
                }
            }
        }
    }

    async fn undo_boot(
        &self,
        record: &BootRecord,
        cancel: &CancellationToken,
    ) -> Result<UndoOutcome, BlockedRun> {
        match undo(&self.inner.context, record, cancel).await {
            Ok(()) => Ok(UndoOutcome::Complete),
            Err(BootUndoError::Cancelled) if self.inner.tasks.is_stopping() => {
                Ok(UndoOutcome::Interrupted)
            }
            Err(BootUndoError::Cancelled) => Ok(UndoOutcome::GoalChanged),
            Err(error) => Err(error.into()),
        }
    }

    async fn boot(
        &self,
        record: BootRecord,
        cancel: &CancellationToken,
    ) -> Result<BootRunOutcome, BlockedRun> {
        let context = &self.inner.context;
        let (uuid, attempt) = (record.request.uuid(), record.attempt);
        let error = match RequestedBoot::boot(record, context, cancel).await {
            Ok(()) => {
                context.journal.set_goal(uuid, &BootGoal::Active).await?;
                return Ok(BootRunOutcome::Reread);
            }
            Err(BootError::Cancelled) if self.inner.tasks.is_stopping() => {
                return Ok(BootRunOutcome::Interrupted);
            }
            Err(BootError::Cancelled) => return Ok(BootRunOutcome::Reread),
            Err(BootError::Journal(error)) => return Err(error.into()),
            Err(error) => error,
        };
        // Read the progress from the journal.
        let Some(record) = context.journal.guest(uuid).await? else {
            return Ok(BootRunOutcome::Reread);
        };
        let at = BootProgress::of(&record);
        let budget = self.retry_budget(uuid, at);
        match decide(&error, &record, &context.options, budget) {
            FailureDecision::Wait => Err(BlockedRun::Boot(error, at)),
            FailureDecision::Undo { failed, then } => {
                tracing::warn!(guest = %uuid, attempt, reason = %failed, "boot attempt failed, undoing it");
                context
                    .journal
                    .set_goal(uuid, &BootGoal::Undo { failed, then })
                    .await?;
                Ok(BootRunOutcome::Reread)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BootRunOutcome {
    Reread,
    Interrupted,
}

/// Outcome of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UndoOutcome {
    Complete,
    /// The goal changed meanwhile.
    GoalChanged,
    Interrupted,
}

/// The reasons of all failed attempts, for operators.
fn operator_reasons(before: &[FailedAttempt], last: &FailedAttempt) -> String {
    if before.is_empty() {
        return last.reason.clone();
    }
    let all = before.iter().chain(std::iter::once(last)).enumerate();
    let all: Vec<_> = all
        .map(|(index, failed)| format!("attempt {} {failed}", index + 1))
        .collect();
    all.join("; ")
}

fn log_outcome(uuid: ConsumerUuid, end: &GuestRunOutcome) {
    match end {
        GuestRunOutcome::Blocked { reason } => {
            tracing::warn!(guest = %uuid, reason, "guest is blocked, retrying later")
        }
        GuestRunOutcome::Failed { reason } => {
            tracing::warn!(guest = %uuid, reason, "guest failed to boot");
        }
        GuestRunOutcome::Interrupted => {
            tracing::debug!(guest = %uuid, "guest task interrupted by shutdown, the next start continues")
        }
        GuestRunOutcome::Active => tracing::info!(guest = %uuid, "guest is active"),
        GuestRunOutcome::Gone => tracing::info!(guest = %uuid, "guest is deleted"),
    }
}
