//! One guest's journey: from where it is to where it is meant to be.

use berth_journeys::Turn;
use berth_model::ConsumerUuid;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::verdict::{Patience, Verdict, verdict};
use super::{Conductor, Rows, StandingStill};
use crate::boot::{BootError, Requested};
use crate::journal::{
    BootRecord, BootStep, Course, FailedAttempt, JournalError, StepState, Then, told_of,
};
use crate::undo::{UndoError, undo};

/// How a guest's journey ended.
#[derive(Debug)]
pub enum JourneyEnd {
    Active,
    /// It does not, for this reason, and nothing of it is left.
    Failed {
        reason: String,
    },
    /// Nothing is left, and nothing is known of it.
    Gone,
    /// The conductor stops; the next start goes on.
    Interrupted,
    /// It stands still for this reason, and is tried again.
    Held {
        reason: String,
    },
}

/// Why a journey stands still.
#[derive(Debug, thiserror::Error)]
enum Held {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A boot that came so far.
    #[error("{0}")]
    Boot(#[source] BootError, Progress),
}

/// How far a boot is: the attempt, and its last step that was begun. Patience is with one place: who comes further, however slowly,
/// is waited for anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    attempt: u32,
    step: Option<BootStep>,
}

impl Progress {
    fn of(record: &BootRecord) -> Self {
        let attempt = record.attempt;
        let mut steps = BootStep::ALL.into_iter().rev();
        let has_begun = |step: &BootStep| {
            let known = record.step(*step);
            known.is_some_and(|it| it.state != StepState::Undone)
        };
        let step = steps.find(has_begun);
        Self { attempt, step }
    }
}

impl Conductor {
    /// Begins a guest's journey, unless one waits to begin already.
    pub(super) fn set_out(&self, uuid: ConsumerUuid) {
        let conductor = self.clone();
        self.inner.journeys.set_out(uuid, move |turn| async move {
            told(uuid, &conductor.journey_in(&turn, uuid).await);
        });
    }

    /// One guest from where it is to where it is meant to be; one journey of a guest at a time.
    pub async fn journey(&self, uuid: ConsumerUuid) -> JourneyEnd {
        let turn = self.inner.journeys.turn(uuid).await;
        self.journey_in(&turn, uuid).await
    }

    async fn journey_in(&self, turn: &Turn<ConsumerUuid>, uuid: ConsumerUuid) -> JourneyEnd {
        let mut at = None;
        let mut rows = Rows::Readable;
        let end = match self.travel(turn, uuid).await {
            Ok(end) => end,
            Err(reason) => {
                if let Held::Journal(error) | Held::Undo(UndoError::Journal(error)) = &reason {
                    self.inner.usable.not_written(error);
                    if matches!(error, JournalError::Unreadable(_)) {
                        rows = Rows::Unreadable;
                    }
                }
                if let Held::Boot(_, progress) = &reason {
                    at = Some(*progress);
                }
                JourneyEnd::Held {
                    reason: reason.to_string(),
                }
            }
        };
        self.ended(uuid, &end, at, rows);
        end
    }

    /// What is kept of a journey's end in memory.
    fn ended(&self, uuid: ConsumerUuid, end: &JourneyEnd, at: Option<Progress>, rows: Rows) {
        self.inner.way.image_is(uuid, None);
        let mut held = self.standing_still();
        if let JourneyEnd::Held { reason } = end {
            let options = &self.inner.way.options;
            let now = Instant::now();
            let before = held.get(&uuid);
            // What is no word of a boot says nothing of how far it is.
            let at = at.or(before.and_then(|it| it.at));
            let before = before.filter(|it| it.at == at);
            let (since, tries) = before.map_or((now, 0), |it| (it.since, it.tries));
            let pause = options.pause.saturating_mul(1 << tries.min(16));
            let standing = StandingStill {
                reason: reason.clone(),
                at,
                rows,
                since,
                tries: tries + 1,
                next: now + pause.min(options.longest_pause),
            };
            held.insert(uuid, standing);
        } else {
            held.remove(&uuid);
        }
    }

    /// Whether a boot has stood still in one place for so long that it is taken back.
    fn patience(&self, uuid: ConsumerUuid, at: Progress) -> Patience {
        let patience = self.inner.way.options.patience;
        let held = self.standing_still();
        let held = held.get(&uuid).filter(|held| held.at == Some(at));
        match held.is_some_and(|held| held.since.elapsed() >= patience) {
            true => Patience::Over,
            false => Patience::Left,
        }
    }

    async fn travel(
        &self,
        turn: &Turn<ConsumerUuid>,
        uuid: ConsumerUuid,
    ) -> Result<JourneyEnd, Held> {
        let way = &self.inner.way;
        loop {
            // Before the look: what is written after it ends what comes of it.
            let cancel = turn.cut_short();
            let Some(record) = way.journal.guest(uuid).await? else {
                return Ok(JourneyEnd::Gone);
            };
            match record.course.clone() {
                Course::Active => return Ok(JourneyEnd::Active),
                Course::Failed { reason, .. } => return Ok(JourneyEnd::Failed { reason }),
                Course::Boot => {
                    if self.boot(record, &cancel).await? == Boot::Interrupted {
                        return Ok(JourneyEnd::Interrupted);
                    }
                }
                Course::Undo { failed, then } => {
                    match self.taken_back(&record, &cancel).await? {
                        TakenBack::Wholly => {}
                        TakenBack::LookAgain => continue,
                        TakenBack::Interrupted => return Ok(JourneyEnd::Interrupted),
                    }
                    match then {
                        Then::Again => way.journal.again(uuid, &failed).await?,
                        Then::Fail => {
                            let reason = reasons(&record.failures, &failed);
                            let told = Some(told_of(uuid, &record.failures, &failed));
                            let course = Course::Failed { reason, told };
                            way.journal.turn(uuid, &course).await?;
                        }
                    }
                }
                Course::Delete => {
                    match self.taken_back(&record, &cancel).await? {
                        TakenBack::Wholly => {}
                        TakenBack::LookAgain => continue,
                        TakenBack::Interrupted => return Ok(JourneyEnd::Interrupted),
                    }
                    way.journal.forget(uuid).await?;
                    return Ok(JourneyEnd::Gone);
                }
            }
        }
    }

    async fn taken_back(
        &self,
        record: &BootRecord,
        cancel: &CancellationToken,
    ) -> Result<TakenBack, Held> {
        match undo(&self.inner.way, record, cancel).await {
            Ok(()) => Ok(TakenBack::Wholly),
            Err(UndoError::Cancelled) if self.inner.journeys.is_stopping() => {
                Ok(TakenBack::Interrupted)
            }
            Err(UndoError::Cancelled) => Ok(TakenBack::LookAgain),
            Err(error) => Err(error.into()),
        }
    }

    async fn boot(&self, record: BootRecord, cancel: &CancellationToken) -> Result<Boot, Held> {
        let way = &self.inner.way;
        let (uuid, attempt) = (record.request.uuid(), record.attempt);
        let error = match Requested::boot(record, way, cancel).await {
            Ok(()) => {
                way.journal.turn(uuid, &Course::Active).await?;
                return Ok(Boot::LookAgain);
            }
            Err(BootError::Cancelled) if self.inner.journeys.is_stopping() => {
                return Ok(Boot::Interrupted);
            }
            Err(BootError::Cancelled) => return Ok(Boot::LookAgain),
            Err(BootError::Journal(error)) => return Err(error.into()),
            Err(error) => error,
        };
        // How far it came is in the journal.
        let Some(record) = way.journal.guest(uuid).await? else {
            return Ok(Boot::LookAgain);
        };
        let at = Progress::of(&record);
        let patience = self.patience(uuid, at);
        match verdict(&error, &record, &way.options, patience) {
            Verdict::Wait => Err(Held::Boot(error, at)),
            Verdict::TakeBack { failed, then } => {
                tracing::warn!(guest = %uuid, attempt, reason = %failed, "a boot is taken back");
                way.journal
                    .turn(uuid, &Course::Undo { failed, then })
                    .await?;
                Ok(Boot::LookAgain)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boot {
    LookAgain,
    Interrupted,
}

/// What came of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakenBack {
    Wholly,
    /// Something else is wanted by now.
    LookAgain,
    Interrupted,
}

/// Why a request fails: the last reason, and those of the attempts before.
fn reasons(before: &[FailedAttempt], last: &FailedAttempt) -> String {
    if before.is_empty() {
        return last.reason.clone();
    }
    let all = before.iter().chain(std::iter::once(last)).enumerate();
    let all: Vec<_> = all
        .map(|(index, failed)| format!("attempt {} {failed}", index + 1))
        .collect();
    all.join("; ")
}

/// An end in the log.
fn told(uuid: ConsumerUuid, end: &JourneyEnd) {
    match end {
        JourneyEnd::Held { reason } => {
            tracing::warn!(guest = %uuid, reason, "a guest stands still")
        }
        JourneyEnd::Failed { reason } => {
            tracing::warn!(guest = %uuid, reason, "a guest could not be booted");
        }
        JourneyEnd::Interrupted => tracing::debug!(guest = %uuid, "the next start goes on"),
        JourneyEnd::Active => tracing::info!(guest = %uuid, "the guest is active"),
        JourneyEnd::Gone => tracing::info!(guest = %uuid, "the guest is gone"),
    }
}
