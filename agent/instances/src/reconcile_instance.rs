//! Drives one instance to its goal: [`Guests::reconcile_instance`].
//!
//! ```text
//! goal Spawn   --> (ports with a function unbound) --------------------------> AwaitsPorts
//!              --> stop_for_transition (if pending) --> spawn --> Settled
//!                                                         | fails, never ran
//!                                                         v
//! goal Undo    --> undo, unbind requests -----------------> Undone
//! goal Destroy --> undo, delete requests, delete record ---> Gone
//! ```
//!
//! The loop reads the goal again after each change. An instance that cannot continue is `Blocked`, and the next sync retries it.

use std::sync::Arc;

use berth_agent_journal::{Blame, Goal, SpawnStep, StepState};
use berth_keyed_tasks::{Interrupt, KeyGuard};
use berth_model::ConsumerUuid;
use berth_virt::VirtDriver;
use tokio::sync::watch;

use crate::guests::Guests;
use crate::outcome::{BlockedGuests, BlockedReason, ReconcileOutcome, log_outcome};
use crate::resources::GuestResources;
use crate::spawn::{RequestedSpawn, SpawnError};
use crate::transition::stop_for_transition;
use crate::undo::{RequestDisposal, UndoError, undo};

/// The longest reason in the journal, in bytes.
const MAX_REASON_BYTES: usize = 2000;

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Starts a reconcile task for the instance, unless one is waiting to start.
    pub(super) fn spawn_reconcile(&self, uuid: ConsumerUuid) {
        let guests = self.clone();
        self.inner
            .tasks
            .spawn_if_idle(uuid, move |guard| async move {
                log_outcome(uuid, guests.reconcile_locked(&guard, uuid).await);
            });
    }

    /// Locks the instance: waits until no other task of it is running.
    pub(super) async fn lock(&self, uuid: ConsumerUuid) -> KeyGuard<ConsumerUuid> {
        self.inner.tasks.lock(uuid).await
    }

    /// Subscribes to interrupts: a deletion of the instance, or the stop of the agent.
    pub(super) fn subscribe_interrupt(&self, uuid: ConsumerUuid) -> Interrupt<ConsumerUuid> {
        self.inner.tasks.subscribe(uuid)
    }

    /// Locks the instance and drives it to its goal.
    pub async fn reconcile_instance(&self, uuid: ConsumerUuid) -> ReconcileOutcome {
        let guard = self.lock(uuid).await;
        self.reconcile_locked(&guard, uuid).await
    }

    async fn reconcile_locked(
        &self,
        guard: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> ReconcileOutcome {
        let outcome = match self.run_to_goal(guard, uuid).await {
            Ok(outcome) => outcome,
            Err(reason) => ReconcileOutcome::Blocked { reason },
        };
        self.record_outcome(uuid, &outcome);
        outcome
    }

    /// Updates the blocked instances and the counters. Logs a blocked instance once, until its reason changes.
    pub(super) fn record_outcome(&self, uuid: ConsumerUuid, outcome: &ReconcileOutcome) {
        if let ReconcileOutcome::Blocked {
            reason: BlockedReason::Journal(error) | BlockedReason::Undo(UndoError::Journal(error)),
        } = outcome
        {
            self.inner.journal_health.record_write_error(error);
        }
        self.inner
            .blocked
            .send_if_modified(|blocked| match outcome {
                ReconcileOutcome::Blocked { reason } => {
                    let reason = reason.to_string();
                    let is_new = blocked.get(&uuid) != Some(&reason);
                    if is_new {
                        tracing::warn!(guest = %uuid, %reason, "instance blocked");
                    }
                    blocked.insert(uuid, reason);
                    is_new
                }
                _ => blocked.remove(&uuid).is_some(),
            });
        self.inner
            .completed_reconciles
            .send_modify(|count| *count += 1);
        self.count_change();
    }

    /// The blocked instances, with the reasons. The next sync retries them.
    #[must_use]
    pub fn blocked(&self) -> BlockedGuests {
        self.inner.blocked.borrow().clone()
    }

    /// Like [`Guests::blocked`], as a subscription.
    #[must_use]
    pub fn subscribe_blocked(&self) -> watch::Receiver<BlockedGuests> {
        self.inner.blocked.subscribe()
    }

    pub(super) async fn run_to_goal(
        &self,
        guard: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> Result<ReconcileOutcome, BlockedReason> {
        let context = &self.inner.context;
        loop {
            // Take the token before reading the goal: a later goal then cancels the work on this one.
            let cancel = guard.interrupt_token();
            let Some(record) = context.journal.guest(uuid).await? else {
                return Ok(ReconcileOutcome::Gone);
            };
            match record.goal.clone() {
                Goal::Spawn
                    if record.state(SpawnStep::Start) == Some(StepState::Done)
                        && record.overrides.transition.is_none() =>
                {
                    return Ok(ReconcileOutcome::Settled);
                }
                Goal::Spawn if record.awaited_port().is_some() => {
                    return Ok(ReconcileOutcome::AwaitsPorts);
                }
                Goal::Spawn if record.is_leaving() => stop_for_transition(context, &record).await?,
                Goal::Spawn => {
                    let has_run = !record.ran_in().is_empty();
                    let spawned = match RequestedSpawn::from_record(Arc::unwrap_or_clone(record)) {
                        Ok(requested) => requested.spawn(context, &cancel).await,
                        Err(error) => Err(error.into()),
                    };
                    match spawned {
                        Ok(_) if has_run => {}
                        Ok(_) => self.record_build_success(),
                        Err(SpawnError::Cancelled) if self.inner.tasks.is_stopping() => {
                            return Ok(ReconcileOutcome::Interrupted);
                        }
                        Err(SpawnError::Cancelled) => {}
                        Err(SpawnError::Journal(error)) => return Err(error.into()),
                        Err(error) if has_run => {
                            return Err(BlockedReason::StartFailed(Box::new(error)));
                        }
                        Err(error) => {
                            let blame = error.blame();
                            let reason = truncate_reason(error.to_string());
                            let goal = Goal::Undo { reason, blame };
                            context.journal.set_goal(uuid, &goal).await?;
                            // A bad image is the user's choice and does not count against this host.
                            if blame != Some(Blame::Image) {
                                self.record_build_failure();
                            }
                        }
                    }
                }
                Goal::Undo { reason, .. } => {
                    undo(context, &record, RequestDisposal::Unbind).await?;
                    return Ok(ReconcileOutcome::Undone { reason });
                }
                Goal::Destroy => {
                    undo(context, &record, RequestDisposal::Delete).await?;
                    context.journal.delete_guest(uuid).await?;
                    return Ok(ReconcileOutcome::Gone);
                }
            }
        }
    }
}

/// Truncates a reason to the journal's limit. The output of a program may be long.
fn truncate_reason(mut reason: String) -> String {
    if reason.len() > MAX_REASON_BYTES {
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        reason.push('…');
    }
    reason
}

#[cfg(test)]
mod tests {
    use crate::reconcile_instance::{MAX_REASON_BYTES, truncate_reason};

    #[test]
    fn a_reason_is_truncated_between_two_characters() {
        assert_eq!(truncate_reason("no".to_owned()), "no");
        let long = truncate_reason("ä".repeat(MAX_REASON_BYTES));
        assert!(long.ends_with("ä…") && long.len() <= MAX_REASON_BYTES + 3);
        let odd = truncate_reason(format!("x{}", "ä".repeat(MAX_REASON_BYTES)));
        assert!(odd.ends_with("ä…") && odd.len() <= MAX_REASON_BYTES + 3);
    }
}
