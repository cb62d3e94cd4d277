//! PUT /allocations of several callers in one transaction.
//!
//! While one transaction is under way, claims that come wait for the next, which takes all of them: sixteen writers cost little
//! more than one, and those of one process are in nobody's way. A claim that comes alone is done alone, at once. Each is judged
//! as if it came by itself ([`crate::store::replace::Claims`]), and a caller who goes away has claimed all the same.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_store::SqlError;
use tokio::sync::oneshot;

use crate::snapshots::Snapshots;
use crate::store::replace::{self, Replace, ReplaceError};

/// Claims of one transaction at most.
const TOGETHER: usize = 64;

pub(crate) struct Claims {
    snapshots: Snapshots,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    is_served: bool,
}

struct Waiting {
    claim: Replace,
    told: Told,
}

type Told = oneshot::Sender<Result<(), ReplaceError>>;

impl Claims {
    pub(crate) fn new(snapshots: &Snapshots) -> Self {
        Self {
            snapshots: snapshots.clone(),
            queue: Arc::default(),
        }
    }

    /// Replaces what the claim's consumers hold.
    pub(crate) async fn claim(&self, claim: Replace) -> Result<(), ReplaceError> {
        let (told, answer) = oneshot::channel();
        let was_served = {
            let mut queue = locked(&self.queue);
            queue.waiting.push_back(Waiting { claim, told });
            std::mem::replace(&mut queue.is_served, true)
        };
        if !was_served {
            let duty = Duty {
                snapshots: self.snapshots.clone(),
                queue: Arc::clone(&self.queue),
                is_on: true,
            };
            // Not by the caller, who may go away while others wait.
            tokio::spawn(duty.serve());
        }
        answer.await.unwrap_or(Err(SqlError::Closed.into()))
    }
}

/// Serves the queue until nobody waits. Dropped before that, it sends away those who do.
struct Duty {
    snapshots: Snapshots,
    queue: Arc<Mutex<Queue>>,
    /// Until nobody waits: from then on the queue is another's.
    is_on: bool,
}

impl Duty {
    async fn serve(mut self) {
        loop {
            // Who is about to ask comes along.
            tokio::task::yield_now().await;
            let group = self.next();
            if group.is_empty() {
                return;
            }
            self.judge(group).await;
        }
    }

    /// Those who are next, in their order. A consumer's second claim is one of a later transaction, and all behind it with it.
    fn next(&mut self) -> Vec<Waiting> {
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

    async fn judge(&self, group: Vec<Waiting>) {
        let (claims, told): (Vec<_>, Vec<_>) = group
            .into_iter()
            .map(|waiting| (waiting.claim, waiting.told))
            .unzip();
        let work = replace::Claims { claims };
        // Who does not wait any more need not be told.
        let error = match self.snapshots.write(&work).await {
            Ok(judged) => {
                for (told, outcome) in told.into_iter().zip(judged.outcomes) {
                    let _ = told.send(outcome);
                }
                return;
            }
            Err(error) => error,
        };
        let told = match <[Told; 1]>::try_from(told) {
            Ok([told]) => {
                let _ = told.send(Err(error));
                return;
            }
            Err(several) => several,
        };
        if is_of_all(&error) {
            let error = Arc::new(error);
            for told in told {
                let _ = told.send(Err(ReplaceError::Together(Arc::clone(&error))));
            }
            return;
        }
        // It is one of them that others come before, or that the database refuses: each for itself, and the queue goes on.
        for (claim, told) in work.claims.into_iter().zip(told) {
            let snapshots = self.snapshots.clone();
            tokio::spawn(async move {
                let _ = told.send(snapshots.write(&claim).await.map(drop));
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

/// Whether the error says nothing of any one claim: the database is away, or nobody knows what it did.
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
    // The queue is whole whatever panicked.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
