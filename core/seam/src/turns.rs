//! Several journeys at once, one crossing at a time: the gate that makes a swarm repeatable by its seed.
//!
//! Each journey gets a [`JourneyGate`] (the gate its decorators ask) and runs its future through [`JourneyGate::run`]. Every side
//! of every crossing waits there. As soon as no journey can go on by itself (each one waits at the gate, waits for
//! something else such as a timer, or is over) and no effect is under way, one of the waiting crossings is chosen by
//! the seed and goes on alone, until its journey waits again. The choice depends on the seed and on which journeys wait
//! where, never on the order in which threads answered.
//!
//! There is no runtime in it, only wakers. Three things follow:
//! - an effect that is answered from another thread (SQLite's) is waited for: nothing else is released meanwhile;
//! - a journey that waits for time does not hold the others up; the harness moves its clock when
//!   [`TurnGate::standing`] says [`Standing::Idle`], never before, or the trace would depend on real speed;
//! - crossings from a task of its own (spawned, not polled by the journey's future) take turns too, but the gate cannot
//!   see when such a task pauses elsewhere; keep those on one thread.

mod course;
mod turn;

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::{Crossing, EffectEnd, Gate, Released};
pub use course::Course;
use course::Membership;
use turn::{Pace, Ticket, Turn, Turns};

/// Lets one crossing of several journeys pass at a time, chosen by a seed.
#[derive(Clone)]
pub struct TurnGate {
    shared: Arc<Shared>,
}

/// How the journeys stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Something is under way or about to be.
    Running,
    /// Every journey that is not over waits for something that is no crossing: time, or a kill to be acted out.
    Idle,
    /// All journeys are over.
    Done,
}

#[derive(Clone)]
pub struct JourneyGate {
    id: usize,
    shared: Arc<Shared>,
    inner: Arc<dyn Gate>,
}

struct Shared(Mutex<Turns>);

impl TurnGate {
    /// The order that this seed chooses.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared(Mutex::new(Turns::seeded(seed)))),
        }
    }

    /// A gate for one more journey. Once it is a crossing's turn, `inner` is asked (a recorder, faults); it should answer
    /// at once.
    #[must_use]
    pub fn journey(&self, inner: Arc<dyn Gate>) -> JourneyGate {
        let mut turns = self.shared.lock();
        turns.journeys.push(Pace::Still);
        turns.woken.push(Arc::default());
        JourneyGate {
            id: turns.journeys.len() - 1,
            shared: Arc::clone(&self.shared),
            inner,
        }
    }

    /// How the journeys stand.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let turns = self.shared.lock();
        if !turns.is_quiet() || !turns.waiting.is_empty() {
            Standing::Running
        } else if turns.journeys.contains(&Pace::Waits) {
            Standing::Idle
        } else {
            Standing::Done
        }
    }
}

impl JourneyGate {
    /// Runs the journey. Nothing of any journey is released before each one that was started has been polled once, so
    /// start all of them before polling the first. A journey that is over (or was dropped) may be run again.
    pub fn run<F: Future>(&self, future: F) -> Course<F> {
        let woken = {
            let mut turns = self.shared.lock();
            turns.set(self.id, Pace::Started);
            Arc::clone(&turns.woken[self.id])
        };
        Course {
            future: Box::pin(future),
            membership: Membership {
                id: self.id,
                shared: Arc::clone(&self.shared),
                woken,
            },
        }
    }

    /// Waits for its turn.
    async fn turn(&self, ticket: Ticket) -> Place<'_> {
        let place = Place {
            shared: &self.shared,
            ticket,
        };
        poll_fn(|context| self.shared.poll_turn(place.ticket, context)).await;
        place
    }
}

impl Gate for JourneyGate {
    fn before<'a>(&'a self, crossing: &'a Crossing) -> Released<'a> {
        Box::pin(async move {
            let ticket = self.shared.lock().wait_at_the_gate(self.id);
            let place = self.turn(ticket).await;
            let release = self.inner.before(crossing).await;
            place.end(if release.effect_follows() {
                Turn::InFlight(ticket, crossing.clone())
            } else {
                Turn::Free
            });
            release
        })
    }

    fn after<'a>(&'a self, crossing: &'a Crossing, outcome: &'a EffectEnd) -> Released<'a> {
        Box::pin(async move {
            let ticket = self.shared.lock().land(self.id, crossing);
            let place = self.turn(ticket).await;
            let release = self.inner.after(crossing, outcome).await;
            place.end(Turn::Free);
            release
        })
    }
}

/// A side of a crossing at the gate. Dropped there, it leaves and lets others go on.
struct Place<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl Place<'_> {
    fn end(self, turn: Turn) {
        let mut turns = self.shared.lock();
        if turns.turn == Turn::Given(self.ticket) {
            turns.turn = turn;
        }
        turns.choose();
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut turns = self.shared.lock();
        turns.waiting.remove(&self.ticket);
        if turns.turn == Turn::Given(self.ticket) {
            turns.turn = Turn::Free;
        }
        turns.choose();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_turn(&self, ticket: Ticket, context: &Context<'_>) -> Poll<()> {
        let mut turns = self.lock();
        if let Some(waker) = turns.waiting.get_mut(&ticket) {
            *waker = Some(context.waker().clone());
        }
        turns.choose();
        if turns.turn == Turn::Given(ticket) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl fmt::Debug for TurnGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnGate")
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for JourneyGate {
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
    use crate::{Moment, OpenGate, PointGate, RecordingGate, Release, Seam, Trace};

    type Recorder = Arc<RecordingGate<OpenGate>>;

    fn recorder(journey: &str) -> Recorder {
        Arc::new(RecordingGate::new(
            OpenGate,
            journey,
            Arc::new(|| Duration::ZERO),
        ))
    }

    async fn cross(gate: JourneyGate, subject: &'static str) {
        let crossing = Crossing::write(Seam::Http, "PUT", subject);
        if gate.before(&crossing).await == Release::Proceed {
            let _ = gate.after(&crossing, &EffectEnd::Done("204".into())).await;
        }
    }

    async fn three_steps(gate: JourneyGate) {
        for subject in ["one", "two", "three"] {
            cross(gate.clone(), subject).await;
        }
    }

    /// Two crossings of one journey side by side.
    async fn side_by_side(gate: JourneyGate) {
        let mut waiting: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = vec![
            Box::pin(cross(gate.clone(), "left")),
            Box::pin(cross(gate, "right")),
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
        let gate = TurnGate::seeded(seed);
        let first = recorder("a");
        let journeys: Vec<JourneyGate> = ["b", "c"]
            .iter()
            .map(|name| gate.journey(Arc::new(first.beside(OpenGate, name))))
            .collect();
        let mut courses: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = journeys
            .iter()
            .map(|journey| Box::pin(journey.run(three_steps(journey.clone()))) as _)
            .collect();
        let side = gate.journey(Arc::clone(&first) as Arc<dyn Gate>);
        courses.push(Box::pin(side.run(side_by_side(side.clone()))));
        assert_eq!(gate.standing(), Standing::Running);
        assert_eq!(run(courses), 0);
        assert_eq!(gate.standing(), Standing::Done);
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
    fn journeys_interleave_between_an_effect_and_its_outcome() {
        let between = (0..20).map(swarm).any(|trace| {
            trace.lines().windows(2).any(|pair| {
                pair[0].event.moment() == Moment::Before && pair[0].number != pair[1].number
            })
        });
        assert!(between);
    }

    #[test]
    fn an_effect_under_way_holds_the_others() {
        let gate = TurnGate::seeded(1);
        let slow = gate.journey(Arc::new(OpenGate));
        let quick = gate.journey(Arc::new(OpenGate));
        let never_ends = {
            let slow = slow.clone();
            async move {
                let crossing = Crossing::write(Seam::Store, "commit", "");
                let _ = slow.before(&crossing).await;
                std::future::pending::<()>().await;
            }
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut slow_course = slow.run(never_ends);
        let many = {
            let quick = quick.clone();
            async move {
                for _ in 0..50 {
                    cross(quick.clone(), "x").await;
                }
            }
        };
        let mut quick_course = quick.run(many);
        let mut step = || {
            let _ = Pin::new(&mut slow_course).poll(&mut context);
            Pin::new(&mut quick_course).poll(&mut context).is_ready()
        };
        let done = (0..200).any(|_| step());
        assert!(!done, "the slow effect had no turn among a hundred");
        assert_eq!(gate.standing(), Standing::Running);
        drop(slow_course);
        let done = (0..200).any(|_| Pin::new(&mut quick_course).poll(&mut context).is_ready());
        assert!(done);
        assert_eq!(gate.standing(), Standing::Done);
    }

    #[test]
    fn an_effect_under_way_holds_the_others_of_its_own_journey_that_come_later() {
        let gate = TurnGate::seeded(1);
        let first = recorder("a");
        let journey = gate.journey(Arc::clone(&first) as Arc<dyn Gate>);
        let (slow, late) = (journey.clone(), journey.clone());
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
            let crossing = Crossing::read(Seam::Http, "GET", "slow");
            let _ = slow.before(&crossing).await;
            until(&lands).await;
            let _ = slow.after(&crossing, &EffectEnd::Done("200".into())).await;
            std::future::pending::<()>().await;
        });
        let mut late = Box::pin(async {
            until(&arrives).await;
            cross(late, "late").await;
            std::future::pending::<()>().await;
        });
        let mut course = journey.run(poll_fn(|context| {
            let _ = (slow.as_mut().poll(context), late.as_mut().poll(context));
            Poll::<()>::Pending
        }));
        let mut context = Context::from_waker(Waker::noop());
        let mut step = || {
            for _ in 0..5 {
                let _ = Pin::new(&mut course).poll(&mut context);
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
    fn a_killed_journey_lets_the_others_go_on_and_can_run_again() {
        let gate = TurnGate::seeded(3);
        let kill = PointGate::at(["crossing:2:before:kill".parse().unwrap()]);
        let victim = gate.journey(Arc::new(kill));
        let other = gate.journey(Arc::new(OpenGate));
        let dies = {
            let victim = victim.clone();
            async move {
                let crossing = Crossing::write(Seam::Http, "PUT", "");
                while victim.before(&crossing).await == Release::Proceed {
                    let _ = victim
                        .after(&crossing, &EffectEnd::Done(String::new()))
                        .await;
                }
                std::future::pending::<()>().await;
            }
        };
        let left = run(vec![
            Box::pin(victim.run(dies)),
            Box::pin(other.run(three_steps(other.clone()))),
        ]);
        assert_eq!(left, 1, "only the killed journey is left");
        assert_eq!(
            run(vec![Box::pin(victim.run(cross(victim.clone(), "again")))]),
            0
        );
        assert_eq!(gate.standing(), Standing::Done);
    }

    #[test]
    fn a_journey_that_waits_for_time_leaves_the_gate_idle() {
        let gate = TurnGate::seeded(5);
        let sleeper = gate.journey(Arc::new(OpenGate));
        let mut course = sleeper.run(std::future::pending::<()>());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(gate.standing(), Standing::Running);
        assert!(Pin::new(&mut course).poll(&mut context).is_pending());
        assert_eq!(gate.standing(), Standing::Idle);
    }

    #[test]
    fn crossings_outside_a_course_take_turns_too() {
        let gate = TurnGate::seeded(9);
        let journey = gate.journey(Arc::new(OpenGate));
        let tasks =
            ["one", "two", "three"].map(|subject| Box::pin(cross(journey.clone(), subject)) as _);
        assert_eq!(run(Vec::from(tasks)), 0);
    }
}
