//! One guest's journey from where it is to where it is meant to be, and how that ended: settled, undone, gone, or standing still.

use std::sync::Arc;

use berth_agent_journal::{Blame, Goal, SpawnStep, StepState};
use berth_keyed_tasks::{Interrupt, KeyGuard};
use berth_model::ConsumerUuid;
use berth_virt::VirtDriver;
use tokio::sync::watch;

use crate::guests::Guests;
use crate::outcome::{BlockedReason, HeldGuests, ReconcileOutcome, told};
use crate::resources::GuestResources;
use crate::spawn::{Requested, SpawnError};
use crate::transition::leave;
use crate::undo::{Requests, UndoError, undo};

/// The longest reason that the journal keeps, in bytes.
const LONGEST_REASON: usize = 2000;

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Begins a guest's journey, unless one waits to begin already.
    pub(super) fn set_out(&self, uuid: ConsumerUuid) {
        let guests = self.clone();
        self.inner
            .journeys
            .spawn_if_idle(uuid, move |turn| async move {
                told(uuid, guests.journey_in(&turn, uuid).await);
            });
    }

    /// The guest's turn, once no other journey of it is under way.
    pub(super) async fn turn(&self, uuid: ConsumerUuid) -> KeyGuard<ConsumerUuid> {
        self.inner.journeys.lock(uuid).await
    }

    /// Hears when the guest is deleted, or the agent stops.
    pub(super) fn listen(&self, uuid: ConsumerUuid) -> Interrupt<ConsumerUuid> {
        self.inner.journeys.subscribe(uuid)
    }

    /// One guest from where it is to where it is meant to be; one journey of a guest at a time.
    pub async fn journey(&self, uuid: ConsumerUuid) -> ReconcileOutcome {
        let turn = self.turn(uuid).await;
        self.journey_in(&turn, uuid).await
    }

    async fn journey_in(
        &self,
        turn: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> ReconcileOutcome {
        let end = match self.travel(turn, uuid).await {
            Ok(end) => end,
            Err(reason) => ReconcileOutcome::Held { reason },
        };
        self.ended(uuid, &end);
        end
    }

    /// What is kept of a journey's end in memory. That a guest stands still is said once, until the reason changes.
    pub(super) fn ended(&self, uuid: ConsumerUuid, end: &ReconcileOutcome) {
        if let ReconcileOutcome::Held {
            reason: BlockedReason::Journal(error) | BlockedReason::Undo(UndoError::Journal(error)),
        } = end
        {
            self.inner.journal_health.record_write_error(error);
        }
        self.inner.held.send_if_modified(|held| match end {
            ReconcileOutcome::Held { reason } => {
                let reason = reason.to_string();
                let news = held.get(&uuid) != Some(&reason);
                if news {
                    tracing::warn!(guest = %uuid, %reason, "a guest stands still");
                }
                held.insert(uuid, reason);
                news
            }
            _ => held.remove(&uuid).is_some(),
        });
        self.inner.ends.send_modify(|ends| *ends += 1);
        self.note_change();
    }

    /// The guests that stand still, and why: what an operator must know, and what is tried again at the next comparison.
    #[must_use]
    pub fn held(&self) -> HeldGuests {
        self.inner.held.borrow().clone()
    }

    /// The same, with a word whenever it changes.
    #[must_use]
    pub fn holding(&self) -> watch::Receiver<HeldGuests> {
        self.inner.held.subscribe()
    }

    pub(super) async fn travel(
        &self,
        turn: &KeyGuard<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> Result<ReconcileOutcome, BlockedReason> {
        let context = &self.inner.context;
        loop {
            // Before the look: what is written after it ends what comes of it.
            let cancel = turn.interrupt_token();
            let Some(record) = context.journal.guest(uuid).await? else {
                return Ok(ReconcileOutcome::Gone);
            };
            match record.course.clone() {
                Goal::Spawn
                    if record.state(SpawnStep::Start) == Some(StepState::Done)
                        && record.life.turning.is_none() =>
                {
                    return Ok(ReconcileOutcome::Settled);
                }
                Goal::Spawn if record.is_leaving() => leave(context, &record).await?,
                Goal::Spawn => {
                    let ran = !record.ran_in().is_empty();
                    let spawned = match Requested::of(Arc::unwrap_or_clone(record)) {
                        Ok(requested) => requested.spawn(context, &cancel).await,
                        Err(error) => Err(error.into()),
                    };
                    match spawned {
                        Ok(_) if ran => {}
                        Ok(_) => self.build_succeeded(),
                        Err(SpawnError::Cancelled) if self.inner.journeys.is_stopping() => {
                            return Ok(ReconcileOutcome::Interrupted);
                        }
                        Err(SpawnError::Cancelled) => {}
                        Err(SpawnError::Journal(error)) => return Err(error.into()),
                        Err(error) if ran => return Err(BlockedReason::NotBack(Box::new(error))),
                        Err(error) => {
                            let blame = error.blame();
                            let reason = bounded(error.to_string());
                            let course = Goal::Undo { reason, blame };
                            context.journal.set_goal(uuid, &course).await?;
                            // An image of the user's own choice says nothing of the host.
                            if blame != Some(Blame::Image) {
                                self.build_failed();
                            }
                        }
                    }
                }
                Goal::Undo { reason, .. } => {
                    undo(context, &record, Requests::Unbind).await?;
                    return Ok(ReconcileOutcome::Undone { reason });
                }
                Goal::Destroy => {
                    undo(context, &record, Requests::Delete).await?;
                    context.journal.delete_guest(uuid).await?;
                    return Ok(ReconcileOutcome::Gone);
                }
            }
        }
    }
}

/// A reason as it is kept: a program's words may be long.
fn bounded(mut reason: String) -> String {
    if reason.len() > LONGEST_REASON {
        reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
        reason.push('…');
    }
    reason
}

#[cfg(test)]
mod tests {
    use crate::reconcile_instance::{LONGEST_REASON, bounded};

    #[test]
    fn a_reason_is_kept_whole_or_cut_between_two_characters() {
        assert_eq!(bounded("no".to_owned()), "no");
        let long = bounded("ä".repeat(LONGEST_REASON));
        assert!(long.ends_with("ä…") && long.len() <= LONGEST_REASON + 3);
        let odd = bounded(format!("x{}", "ä".repeat(LONGEST_REASON)));
        assert!(odd.ends_with("ä…") && odd.len() <= LONGEST_REASON + 3);
    }
}
