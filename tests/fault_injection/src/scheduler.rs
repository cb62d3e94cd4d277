//! A deterministic scheduler: runs several tasks and lets one effect at a time proceed, chosen by a seed.
//!
//! Each task gets a [`TaskGate`], which its decorators ask, and runs its future through [`TaskGate::run`]. Both sides of every effect
//! wait at the gate:
//!
//! ```text
//! before/after -> waiting -> (all tasks wait, no effect in flight: chosen by the seed) -> inner gate decides -> effect in flight
//! ```
//!
//! An effect is chosen only when no task can run by itself: each one waits at the gate, waits for something else such as a timer, or has
//! finished. The choice depends on the seed and on the waiting tasks, never on the order in which threads answered.
//!
//! It uses no runtime, only wakers. Three consequences:
//! - While an effect is answered from another thread (SQLite does this), no other effect proceeds.
//! - A task that waits for time does not block the others. The harness advances its clock only in [`SchedulerState::Idle`]; otherwise the
//!   trace would depend on real speed.
//! - Effects of a spawned task, which the future given to [`TaskGate::run`] does not poll, are scheduled too. The scheduler cannot see when
//!   such a task waits for something else, so keep these tasks on one thread.

mod run_queue;
mod task;

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::{Effect, EffectOutcome, Gate, GateFuture};
use run_queue::{RunQueue, RunningEffect, TaskState, Ticket};
pub use task::ScheduledTask;
use task::TaskRegistration;

/// Lets one effect of several tasks proceed at a time, chosen by a seed.
#[derive(Clone)]
pub struct DeterministicScheduler {
    shared: Arc<Shared>,
}

/// Whether any task can still make progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulerState {
    /// A task or an effect is running or can run.
    Running,
    /// Every unfinished task waits for something other than an effect: time, or a kill to be played.
    Idle,
    /// All tasks have finished.
    Done,
}

#[derive(Clone)]
pub struct TaskGate {
    id: usize,
    shared: Arc<Shared>,
    inner: Arc<dyn Gate>,
}

struct Shared(Mutex<RunQueue>);

impl DeterministicScheduler {
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared(Mutex::new(RunQueue::seeded(seed)))),
        }
    }

    /// Adds a task and returns its gate. When an effect is chosen, `inner` (a recorder, faults) decides about it; it should decide at once.
    #[must_use]
    pub fn task_gate(&self, inner: Arc<dyn Gate>) -> TaskGate {
        let mut queue = self.shared.lock();
        queue.tasks.push(TaskState::Still);
        queue.woken.push(Arc::default());
        TaskGate {
            id: queue.tasks.len() - 1,
            shared: Arc::clone(&self.shared),
            inner,
        }
    }

    #[must_use]
    pub fn state(&self) -> SchedulerState {
        let queue = self.shared.lock();
        if !queue.is_quiet() || !queue.waiting.is_empty() {
            SchedulerState::Running
        } else if queue.tasks.contains(&TaskState::Waits) {
            SchedulerState::Idle
        } else {
            SchedulerState::Done
        }
    }
}

impl TaskGate {
    /// Runs the task. No effect proceeds before each started task was polled once, so start all of them before you poll the first. A task
    /// that finished or was dropped may be run again.
    pub fn run<F: Future>(&self, future: F) -> ScheduledTask<F> {
        let woken = {
            let mut queue = self.shared.lock();
            queue.set(self.id, TaskState::Started);
            Arc::clone(&queue.woken[self.id])
        };
        ScheduledTask {
            future: Box::pin(future),
            membership: TaskRegistration {
                id: self.id,
                shared: Arc::clone(&self.shared),
                woken,
            },
        }
    }

    async fn wait_until_chosen(&self, ticket: Ticket) -> QueueEntry<'_> {
        let entry = QueueEntry {
            shared: &self.shared,
            ticket,
        };
        poll_fn(|context| self.shared.poll_chosen(entry.ticket, context)).await;
        entry
    }
}

impl Gate for TaskGate {
    fn before<'a>(&'a self, effect: &'a Effect) -> GateFuture<'a> {
        Box::pin(async move {
            let ticket = self.shared.lock().enqueue(self.id);
            let entry = self.wait_until_chosen(ticket).await;
            let decision = self.inner.before(effect).await;
            entry.end(if decision.effect_follows() {
                RunningEffect::InFlight(ticket, effect.clone())
            } else {
                RunningEffect::Free
            });
            decision
        })
    }

    fn after<'a>(&'a self, effect: &'a Effect, outcome: &'a EffectOutcome) -> GateFuture<'a> {
        Box::pin(async move {
            let ticket = self.shared.lock().effect_ended(self.id, effect);
            let entry = self.wait_until_chosen(ticket).await;
            let decision = self.inner.after(effect, outcome).await;
            entry.end(RunningEffect::Free);
            decision
        })
    }
}

/// One side of an effect in the queue. Dropping it removes it from the queue.
struct QueueEntry<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl QueueEntry<'_> {
    fn end(self, next: RunningEffect) {
        let mut queue = self.shared.lock();
        if queue.running == RunningEffect::Given(self.ticket) {
            queue.running = next;
        }
        queue.choose();
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.waiting.remove(&self.ticket);
        if queue.running == RunningEffect::Given(self.ticket) {
            queue.running = RunningEffect::Free;
        }
        queue.choose();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, RunQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_chosen(&self, ticket: Ticket, context: &Context<'_>) -> Poll<()> {
        let mut queue = self.lock();
        if let Some(waker) = queue.waiting.get_mut(&ticket) {
            *waker = Some(context.waker().clone());
        }
        queue.choose();
        if queue.running == RunningEffect::Given(ticket) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl fmt::Debug for DeterministicScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnGate")
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TaskGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JourneyGate")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::pin::Pin;
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::executor::run;
    use crate::{Boundary, EffectPhase, GateDecision, OpenGate, PointGate, RecordingGate, Trace};

    type Recorder = Arc<RecordingGate<OpenGate>>;

    fn recorder(task: &str) -> Recorder {
        Arc::new(RecordingGate::new(
            OpenGate,
            task,
            Arc::new(|| Duration::ZERO),
        ))
    }

    async fn pass(gate: TaskGate, subject: &'static str) {
        let effect = Effect::write(Boundary::Http, "PUT", subject);
        if gate.before(&effect).await == GateDecision::Proceed {
            let _ = gate
                .after(&effect, &EffectOutcome::Done("204".into()))
                .await;
        }
    }

    async fn three_steps(gate: TaskGate) {
        for subject in ["one", "two", "three"] {
            pass(gate.clone(), subject).await;
        }
    }

    /// Two concurrent effects of one task.
    async fn side_by_side(gate: TaskGate) {
        let mut waiting: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = vec![
            Box::pin(pass(gate.clone(), "left")),
            Box::pin(pass(gate, "right")),
        ];
        poll_fn(|context| {
            waiting.retain_mut(|future| future.as_mut().poll(context).is_pending());
            if waiting.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn swarm(seed: u64) -> Trace {
        let gate = DeterministicScheduler::seeded(seed);
        let first = recorder("a");
        let tasks: Vec<TaskGate> = ["b", "c"]
            .iter()
            .map(|name| gate.task_gate(Arc::new(first.for_task(OpenGate, name))))
            .collect();
        let mut runs: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = tasks
            .iter()
            .map(|task| Box::pin(task.run(three_steps(task.clone()))) as _)
            .collect();
        let side = gate.task_gate(Arc::clone(&first) as Arc<dyn Gate>);
        runs.push(Box::pin(side.run(side_by_side(side.clone()))));
        assert_eq!(gate.state(), SchedulerState::Running);
        assert_eq!(run(runs), 0);
        assert_eq!(gate.state(), SchedulerState::Done);
        first.trace()
    }

    #[test]
    fn the_same_seed_gives_the_same_trace_and_seeds_differ() {
        let traces: Vec<Trace> = (0..20).map(swarm).collect();
        for (seed, trace) in (0..).zip(&traces) {
            assert_eq!(swarm(seed), *trace);
            assert_eq!(trace.lines().len(), 16);
        }
        let different: BTreeSet<u64> = traces.iter().map(Trace::fingerprint).collect();
        assert!(different.len() > 15);
    }

    #[test]
    fn tasks_interleave_between_an_effect_and_its_outcome() {
        let between = (0..20).map(swarm).any(|trace| {
            trace.lines().windows(2).any(|pair| {
                pair[0].event.phase() == EffectPhase::Before && pair[0].number != pair[1].number
            })
        });
        assert!(between);
    }

    #[test]
    fn an_effect_in_flight_blocks_the_others() {
        let gate = DeterministicScheduler::seeded(1);
        let slow = gate.task_gate(Arc::new(OpenGate));
        let quick = gate.task_gate(Arc::new(OpenGate));
        let never_ends = {
            let slow = slow.clone();
            async move {
                let effect = Effect::write(Boundary::Store, "commit", "");
                let _ = slow.before(&effect).await;
                std::future::pending::<()>().await;
            }
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut slow_run = slow.run(never_ends);
        let many = {
            let quick = quick.clone();
            async move {
                for _ in 0..50 {
                    pass(quick.clone(), "x").await;
                }
            }
        };
        let mut quick_run = quick.run(many);
        let mut step = || {
            let _ = Pin::new(&mut slow_run).poll(&mut context);
            Pin::new(&mut quick_run).poll(&mut context).is_ready()
        };
        let done = (0..200).any(|_| step());
        assert!(!done, "the slow effect had no turn among a hundred");
        assert_eq!(gate.state(), SchedulerState::Running);
        drop(slow_run);
        let done = (0..200).any(|_| Pin::new(&mut quick_run).poll(&mut context).is_ready());
        assert!(done);
        assert_eq!(gate.state(), SchedulerState::Done);
    }

    #[test]
    fn an_effect_in_flight_blocks_later_effects_of_its_own_task() {
        let gate = DeterministicScheduler::seeded(1);
        let first = recorder("a");
        let task = gate.task_gate(Arc::clone(&first) as Arc<dyn Gate>);
        let (slow, late) = (task.clone(), task.clone());
        let (arrives, lands) = (Cell::new(false), Cell::new(false));
        let until = async |happened: &Cell<bool>| {
            poll_fn(|_| {
                if happened.get() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        };
        let mut slow = Box::pin(async {
            let effect = Effect::read(Boundary::Http, "GET", "slow");
            let _ = slow.before(&effect).await;
            until(&lands).await;
            let _ = slow
                .after(&effect, &EffectOutcome::Done("200".into()))
                .await;
            std::future::pending::<()>().await;
        });
        let mut late = Box::pin(async {
            until(&arrives).await;
            pass(late, "late").await;
            std::future::pending::<()>().await;
        });
        let mut run = task.run(poll_fn(|context| {
            let _ = (slow.as_mut().poll(context), late.as_mut().poll(context));
            Poll::<()>::Pending
        }));
        let mut context = Context::from_waker(Waker::noop());
        let mut step = || {
            for _ in 0..5 {
                let _ = Pin::new(&mut run).poll(&mut context);
            }
            first.trace().lines().len()
        };
        assert_eq!(step(), 1, "the slow one is under way");
        arrives.set(true);
        assert_eq!(step(), 1, "the late one waits for it");
        lands.set(true);
        step();
        assert_eq!(first.trace().lines().len(), 4);
    }

    #[test]
    fn a_killed_task_does_not_block_the_others_and_can_run_again() {
        let gate = DeterministicScheduler::seeded(3);
        let kill = PointGate::at(["effect:2:before:kill".parse().unwrap()]);
        let victim = gate.task_gate(Arc::new(kill));
        let other = gate.task_gate(Arc::new(OpenGate));
        let dies = {
            let victim = victim.clone();
            async move {
                let effect = Effect::write(Boundary::Http, "PUT", "");
                while victim.before(&effect).await == GateDecision::Proceed {
                    let _ = victim
                        .after(&effect, &EffectOutcome::Done(String::new()))
                        .await;
                }
                std::future::pending::<()>().await;
            }
        };
        let left = run(vec![
            Box::pin(victim.run(dies)),
            Box::pin(other.run(three_steps(other.clone()))),
        ]);
        assert_eq!(left, 1, "only the killed task is left");
        assert_eq!(
            run(vec![Box::pin(victim.run(pass(victim.clone(), "again")))]),
            0
        );
        assert_eq!(gate.state(), SchedulerState::Done);
    }

    #[test]
    fn a_task_that_waits_for_time_leaves_the_scheduler_idle() {
        let gate = DeterministicScheduler::seeded(5);
        let sleeper = gate.task_gate(Arc::new(OpenGate));
        let mut run = sleeper.run(std::future::pending::<()>());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(gate.state(), SchedulerState::Running);
        assert!(Pin::new(&mut run).poll(&mut context).is_pending());
        assert_eq!(gate.state(), SchedulerState::Idle);
    }

    #[test]
    fn effects_outside_a_run_are_scheduled_too() {
        let gate = DeterministicScheduler::seeded(9);
        let task = gate.task_gate(Arc::new(OpenGate));
        let tasks =
            ["one", "two", "three"].map(|subject| Box::pin(pass(task.clone(), subject)) as _);
        assert_eq!(run(Vec::from(tasks)), 0);
    }
}
