//! Group commit for PUT /allocations: several callers share one transaction.
//!
//! Claims that arrive while a transaction is running wait for the next one, which takes all of them. So sixteen
//! concurrent writers cost little more than one. A claim that arrives alone runs at once. Each claim is decided as if
//! it were alone ([`crate::store::replace::Claims`]). If its caller disconnects, the claim is carried out nevertheless.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_store::SqlError;
use tokio::sync::oneshot;

use crate::snapshots::Snapshots;
use crate::store::replace::{self, Replace, ReplaceError};

/// Claims of one transaction at most.
const TOGETHER: usize = 64;

pub(crate) struct ClaimQueue {
    snapshots: Snapshots,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<QueuedClaim>,
    is_served: bool,
}

struct QueuedClaim {
    claim: Replace,
    sender: ClaimAnswer,
}

type ClaimAnswer = oneshot::Sender<Result<(), ReplaceError>>;

impl ClaimQueue {
    pub(crate) fn new(snapshots: &Snapshots) -> Self {
        Self {
            snapshots: snapshots.clone(),
            queue: Arc::default(),
        }
    }

    /// Replaces the allocations of the claim's consumers.
    pub(crate) async fn claim(&self, claim: Replace) -> Result<(), ReplaceError> {
        let (sender, answer) = oneshot::channel();
        let was_served = {
            let mut queue = locked(&self.queue);
            queue.waiting.push_back(QueuedClaim { claim, sender });
            std::mem::replace(&mut queue.is_served, true)
        };
        if !was_served {
            let duty = Duty {
                snapshots: self.snapshots.clone(),
                queue: Arc::clone(&self.queue),
                is_on: true,
            };
            // In a task of its own, because this caller may disconnect while others wait.
            tokio::spawn(duty.serve());
        }
        answer.await.unwrap_or(Err(SqlError::Closed.into()))
    }
}

/// Serves the queue until it is empty. If dropped earlier, waiting callers get an error.
struct Duty {
    snapshots: Snapshots,
    queue: Arc<Mutex<Queue>>,
    /// Cleared when the queue is empty; the next caller then starts a new task.
    is_on: bool,
}

impl Duty {
    async fn serve(mut self) {
        loop {
            // Lets callers that are about to claim join this transaction.
            tokio::task::yield_now().await;
            let group = self.next();
            if group.is_empty() {
                return;
            }
            self.judge(group).await;
        }
    }

    /// The claims of the next transaction, in order. A second claim of the same consumer, and everything after it,
    /// waits for a later one.
    fn next(&mut self) -> Vec<QueuedClaim> {
        let mut queue = locked(&self.queue);
        let mut consumers = BTreeSet::new();
        let mut together = 0;
        for waiting in queue.waiting.iter().take(TOGETHER) {
            let own = waiting.claim.consumers.iter().map(|it| &it.consumer);
            if !own.into_iter().all(|it| consumers.insert(it.clone())) {
                break;
            }
            together += 1;
        }
        queue.is_served = together > 0;
        self.is_on = queue.is_served;
        queue.waiting.drain(..together).collect()
    }

    async fn judge(&self, group: Vec<QueuedClaim>) {
        let (claims, sender): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|waiting| (waiting.claim, waiting.sender))
            .unzip();
        let work = replace::ClaimBatch { claims };
        // A caller that disconnected gets no answer.
        let error = match self.snapshots.write(&work).await {
            Ok(judged) => {
                for (sender, outcome) in sender.into_iter().zip(judged.outcomes) {
                    let _ = sender.send(outcome);
                }
                return;
            }
            Err(error) => error,
        };
        let sender = match <[ClaimAnswer; 1]>::try_from(sender) {
            Ok([sender]) => {
                let _ = sender.send(Err(error));
                return;
            }
            Err(several) => several,
        };
        if is_of_all(&error) {
            let error = Arc::new(error);
            for sender in sender {
                let _ = sender.send(Err(ReplaceError::Together(Arc::clone(&error))));
            }
            return;
        }
        // One of them keeps conflicting, or the database refuses one: run each on its own.
        for (claim, sender) in work.claims.into_iter().zip(sender) {
            let snapshots = self.snapshots.clone();
            tokio::spawn(async move {
                let _ = sender.send(snapshots.write(&claim).await.map(drop));
            });
        }
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if self.is_on {
            let mut queue = locked(&self.queue);
            queue.is_served = false;
            queue.waiting.clear();
        }
    }
}

/// Whether the error concerns all claims: the database is unreachable or the outcome is unknown.
fn is_of_all(error: &ReplaceError) -> bool {
    match error {
        ReplaceError::Sql(error) => !matches!(
            error,
            SqlError::Refused(_)
                | SqlError::Conflict(_)
                | SqlError::Ended { .. }
                | SqlError::Duplicate(_)
                | SqlError::Constraint(_)
                | SqlError::Column { .. }
                | SqlError::Nul(_)
                | SqlError::Character(_)
                | SqlError::CounterFull { .. }
        ),
        _ => false,
    }
}

fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // The queue is consistent even after a panic.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
