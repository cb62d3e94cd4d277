//! Checks whether a history is linearizable: each request must have taken effect at one time between request and
//! answer, in one order for all, by the rules of a provider with limited units. The search is Wing and Gong's, with a
//! cache of visited states; this file has the rules, and resolves unknown outcomes where a later read shows them. Pure.

use std::cell::Cell;

use berth_tests::contest::{
    AllocationModel, ContestAnswer, ContestCall, ContestHistory, Event, WriteOrder,
};
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
enum SearchOperation {
    /// The first operation: sets the capacity and the generation.
    Offer { capacity: u64, generation: i64 },
    /// A request with what is known of its answer, and its place in an order that is to be tried alone.
    Ask {
        call: ContestCall,
        answer: Option<ContestAnswer>,
        place: Option<usize>,
    },
}

/// A provider at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Provider {
    capacity: u64,
    generation: i64,
    allocations: AllocationModel,
    /// Requests that were done.
    done: usize,
}

struct Rules;

impl Specification for Rules {
    type State = Provider;
    type Operation = SearchOperation;

    fn init() -> Provider {
        Provider::default()
    }

    fn apply(op: &SearchOperation, state: &Provider) -> (bool, Provider) {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(1));
        let next = match op {
            _ if left == 0 => None,
            SearchOperation::Offer {
                capacity,
                generation,
            } => Some(Provider {
                capacity: *capacity,
                generation: *generation,
                ..Provider::default()
            }),
            SearchOperation::Ask { place, .. }
                if place.is_some_and(|place| place != state.done) =>
            {
                None
            }
            SearchOperation::Ask { call, answer, .. } => state.asked(call, answer.as_ref()),
        };
        match next {
            Some(next) => (true, next),
            None => (false, state.clone()),
        }
    }
}

impl Provider {
    /// The state after this request. None if this answer is impossible.
    fn asked(&self, call: &ContestCall, answer: Option<&ContestAnswer>) -> Option<Self> {
        let same = Self {
            done: self.done + 1,
            ..self.clone()
        };
        let written = |wants| {
            let may =
                self.allocations.is_current(wants) && self.allocations.admits(wants, self.capacity);
            may.then(|| Self {
                generation: self.generation + 1,
                allocations: self.allocations.after(wants),
                ..same.clone()
            })
        };
        let released = |consumer| {
            let mut after = same.clone();
            after.allocations.held.remove(consumer)?;
            Some(after)
        };
        match (call, answer) {
            (ContestCall::Write(wants), Some(ContestAnswer::Done)) => written(wants),
            (ContestCall::Write(wants), Some(ContestAnswer::Full)) => {
                (!self.allocations.admits(wants, self.capacity)).then_some(same)
            }
            (ContestCall::Release(consumer), Some(ContestAnswer::Done)) => released(consumer),
            (ContestCall::Release(consumer), Some(ContestAnswer::NotThere)) => {
                (!self.allocations.held.contains_key(consumer)).then_some(same)
            }
            (ContestCall::Read, Some(ContestAnswer::Seen { generation, held })) => {
                (*generation == self.generation && *held == self.allocations.units())
                    .then_some(same)
            }
            // A request that was answered with a conflict changed nothing.
            (ContestCall::Write(_) | ContestCall::Release(_), Some(ContestAnswer::Conflict)) => {
                Some(same)
            }
            // The outcome is unknown: the write is applied where possible; one that was never done comes after all
            // others.
            (ContestCall::Write(wants), None | Some(ContestAnswer::Failed(_))) => {
                Some(written(wants).unwrap_or(same))
            }
            (ContestCall::Release(consumer), None | Some(ContestAnswer::Failed(_))) => {
                Some(released(consumer).unwrap_or(same))
            }
            (ContestCall::Read, None | Some(ContestAnswer::Failed(_))) => Some(same),
            _ => None,
        }
    }
}

/// Looks for an order, with so many steps at most.
pub(crate) fn search(history: &ContestHistory, steps: u64) -> Verdict {
    let settled: Vec<Event> = history
        .events
        .iter()
        .filter_map(|event| settled(history, event))
        .collect();
    // First only the requests that may have changed something, which are few. If these have no valid order, the history has none.
    let changing: Vec<(Event, Option<usize>)> = settled
        .iter()
        .filter(|event| {
            matches!(
                event.answer(),
                None | Some(ContestAnswer::Done | ContestAnswer::Failed(_))
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

/// Resolves an unknown outcome if possible: a writer does not touch a consumer again after one, so the last read shows
/// whether it was done. A write that was not done is removed, and so is a lost read.
fn settled(history: &ContestHistory, event: &Event) -> Option<Event> {
    if !event.is_unknown() {
        return Some(event.clone());
    }
    let readings = history.events.iter().filter_map(|it| match &it.answered {
        Some((moment, ContestAnswer::Seen { held, .. })) => Some((moment, held)),
        _ => None,
    });
    let (_, held) = readings.max_by_key(|(moment, _)| **moment)?;
    let now = |consumer| held.get(consumer).copied().unwrap_or_default();
    let was_done = match &event.call {
        ContestCall::Read => false,
        ContestCall::Release(consumer) => now(consumer) == 0,
        ContestCall::Write(wants) => wants.iter().all(|want| now(&want.consumer) == want.units),
    };
    was_done.then(|| Event {
        answered: Some((u64::MAX, ContestAnswer::Done)),
        ..event.clone()
    })
}

/// Whether all can have been in this one order.
pub(crate) fn verify(history: &ContestHistory, order: &WriteOrder) -> Verdict {
    let placed = (0..history.events.len()).filter_map(|at| Some((order.places[at]?, at)));
    let mut placed: Vec<(usize, bool, u64, usize)> = placed
        .map(|(place, at)| {
            let is_write = order.writes.contains(&at);
            (place, is_write, history.events[at].asked, at)
        })
        .collect();
    // At the same position, reads come before the write.
    placed.sort_unstable();
    let events: Vec<(Event, Option<usize>)> = placed
        .iter()
        .enumerate()
        .map(|(number, (_, is_write, _, at))| {
            let mut event = history.events[*at].clone();
            if *is_write && event.is_unknown() {
                event.answered = Some((u64::MAX, ContestAnswer::Done));
            }
            (event, Some(number))
        })
        .collect();
    run(history, &events, u64::MAX)
}

fn run(history: &ContestHistory, events: &[(Event, Option<usize>)], steps: u64) -> Verdict {
    let offer = SearchOperation::Offer {
        capacity: history.capacity,
        generation: history.generation,
    };
    let mut moments: Vec<(u64, usize, Action<SearchOperation>)> = Vec::new();
    for (process, (event, place)) in events.iter().enumerate() {
        let op = SearchOperation::Ask {
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
