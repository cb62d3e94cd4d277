//! Whether a history is linearizable: whether each request can have had its effect at one moment between request and answer, in
//! one order for all, by the rules of a provider with so many units. The search is another's (Wing and Gong's, with a memory of
//! what was tried); the rules and the order that it may be told are here. Pure.

use std::cell::Cell;

use berth_tests::contest::{Answer, Call, Event, Give, History, Order};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Actions};
use todc_utils::specifications::Specification;

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Linearizable,
    /// There is no such order.
    Refused,
    /// There are too many orders to try them all.
    Undecided,
}

thread_local! {
    /// How many more steps a search may try.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// What a search does at a step.
#[derive(Clone, Debug)]
enum Op {
    /// There are so many units now; the first of all.
    Offer { capacity: u64, generation: i64 },
    /// A request with what is known of its answer, and its place in an order that is to be tried alone.
    Ask {
        call: Call,
        answer: Option<Answer>,
        place: Option<usize>,
    },
}

/// A provider at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Provider {
    capacity: u64,
    generation: i64,
    give: Give,
    /// Requests that were done.
    done: usize,
}

struct Rules;

impl Specification for Rules {
    type State = Provider;
    type Operation = Op;

    fn init() -> Provider {
        Provider::default()
    }

    fn apply(op: &Op, state: &Provider) -> (bool, Provider) {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(1));
        let next = match op {
            _ if left == 0 => None,
            Op::Offer {
                capacity,
                generation,
            } => Some(Provider {
                capacity: *capacity,
                generation: *generation,
                ..Provider::default()
            }),
            Op::Ask { place, .. } if place.is_some_and(|place| place != state.done) => None,
            Op::Ask { call, answer, .. } => state.asked(call, answer.as_ref()),
        };
        match next {
            Some(next) => (true, next),
            None => (false, state.clone()),
        }
    }
}

impl Provider {
    /// As it is after this request, where that can have been its answer.
    fn asked(&self, call: &Call, answer: Option<&Answer>) -> Option<Self> {
        let same = Self {
            done: self.done + 1,
            ..self.clone()
        };
        let written = |wants| {
            let may = self.give.is_current(wants) && self.give.admits(wants, self.capacity);
            may.then(|| Self {
                generation: self.generation + 1,
                give: self.give.after(wants),
                ..same.clone()
            })
        };
        let released = |consumer| {
            let mut after = same.clone();
            after.give.held.remove(consumer)?;
            Some(after)
        };
        match (call, answer) {
            (Call::Write(wants), Some(Answer::Done)) => written(wants),
            (Call::Write(wants), Some(Answer::Full)) => {
                (!self.give.admits(wants, self.capacity)).then_some(same)
            }
            (Call::Release(consumer), Some(Answer::Done)) => released(consumer),
            (Call::Release(consumer), Some(Answer::NotThere)) => {
                (!self.give.held.contains_key(consumer)).then_some(same)
            }
            (Call::Read, Some(Answer::Seen { generation, held })) => {
                (*generation == self.generation && *held == self.give.units()).then_some(same)
            }
            // Whoever was told of another that came first has changed nothing.
            (Call::Write(_) | Call::Release(_), Some(Answer::Conflict)) => Some(same),
            // Nobody knows: it is done where it can be; one that was never done stands after all others.
            (Call::Write(wants), None | Some(Answer::Failed(_))) => {
                Some(written(wants).unwrap_or(same))
            }
            (Call::Release(consumer), None | Some(Answer::Failed(_))) => {
                Some(released(consumer).unwrap_or(same))
            }
            (Call::Read, None | Some(Answer::Failed(_))) => Some(same),
            _ => None,
        }
    }
}

/// Looks for an order, with so many steps at most.
pub(crate) fn search(history: &History, steps: u64) -> Verdict {
    let settled: Vec<Event> = history
        .events
        .iter()
        .filter_map(|event| settled(history, event))
        .collect();
    // Without those that only look: where these have no order all have none, and they are few.
    let changing: Vec<(Event, Option<usize>)> = settled
        .iter()
        .filter(|event| {
            matches!(
                event.answer(),
                None | Some(Answer::Done | Answer::Failed(_))
            )
        })
        .map(|event| (event.clone(), None))
        .collect();
    match run(history, &changing, steps) {
        Verdict::Linearizable => {}
        other => return other,
    }
    let all: Vec<_> = settled.into_iter().map(|event| (event, None)).collect();
    run(history, &all, steps)
}

/// An unknown outcome that can be told: a consumer is left alone by its writer after one, so that the last reading shows whether
/// it was done. One that was not is none, and so is a lost reading.
fn settled(history: &History, event: &Event) -> Option<Event> {
    if !event.is_unknown() {
        return Some(event.clone());
    }
    let readings = history.events.iter().filter_map(|it| match &it.answered {
        Some((moment, Answer::Seen { held, .. })) => Some((moment, held)),
        _ => None,
    });
    let (_, held) = readings.max_by_key(|(moment, _)| **moment)?;
    let now = |consumer| held.get(consumer).copied().unwrap_or_default();
    let was_done = match &event.call {
        Call::Read => false,
        Call::Release(consumer) => now(consumer) == 0,
        Call::Write(wants) => wants.iter().all(|want| now(&want.consumer) == want.units),
    };
    was_done.then(|| Event {
        answered: Some((u64::MAX, Answer::Done)),
        ..event.clone()
    })
}

/// Whether all can have been in this one order.
pub(crate) fn verify(history: &History, order: &Order) -> Verdict {
    let placed = (0..history.events.len()).filter_map(|at| Some((order.places[at]?, at)));
    let mut placed: Vec<(usize, bool, u64, usize)> = placed
        .map(|(place, at)| {
            let is_write = order.writes.contains(&at);
            (place, is_write, history.events[at].asked, at)
        })
        .collect();
    // At one place those that look stand before the one that changes.
    placed.sort_unstable();
    let events: Vec<(Event, Option<usize>)> = placed
        .iter()
        .enumerate()
        .map(|(number, (_, is_write, _, at))| {
            let mut event = history.events[*at].clone();
            if *is_write && event.is_unknown() {
                event.answered = Some((u64::MAX, Answer::Done));
            }
            (event, Some(number))
        })
        .collect();
    run(history, &events, u64::MAX)
}

fn run(history: &History, events: &[(Event, Option<usize>)], steps: u64) -> Verdict {
    let offer = Op::Offer {
        capacity: history.capacity,
        generation: history.generation,
    };
    let mut moments: Vec<(u64, usize, Action<Op>)> = Vec::new();
    for (process, (event, place)) in events.iter().enumerate() {
        let op = Op::Ask {
            call: event.call.clone(),
            answer: event.answer().cloned(),
            place: *place,
        };
        moments.push((event.asked, process, Action::Call(op.clone())));
        moments.push((event.over(), process, Action::Response(op)));
    }
    moments.sort_by_key(|(moment, process, _)| (*moment, *process));
    let first = events.len();
    let mut actions = vec![
        (first, Action::Call(offer.clone())),
        (first, Action::Response(offer)),
    ];
    actions.extend(
        moments
            .into_iter()
            .map(|(_, process, action)| (process, action)),
    );
    LEFT.set(steps);
    let found = WGLChecker::<Rules>::is_linearizable(Actions::from_actions(actions));
    match (found, LEFT.get()) {
        (true, _) => Verdict::Linearizable,
        (false, 0) => Verdict::Undecided,
        (false, _) => Verdict::Refused,
    }
}
