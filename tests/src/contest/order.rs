//! Orders the acknowledged writes by the provider's generations, and checks that no position exceeds the capacity;
//! pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AllocationModel, ContestAnswer, ContestCall, ContestHistory, Event, ProviderChange,
    ProviderChangeLog,
};

/// What is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderViolation {
    /// Consumers hold more than there is.
    #[error("at generation {generation} consumers hold {used} of {capacity} units")]
    TooMuch {
        generation: i64,
        used: u64,
        capacity: u64,
    },
    /// A generation is missing or there twice.
    #[error("generation {found} came after {last}")]
    Generations { last: i64, found: i64 },
    /// The provider changed without a matching request: half of a write, or a refused one.
    #[error("no request explains the change to generation {}: {:?}", .0.generation, .0.changes)]
    Nobody(ProviderChange),
    /// A write was acknowledged and is not among the provider's changes.
    #[error("acknowledged and not done: {0:?}")]
    Lost(Box<Event>),
    /// It took effect before its request, or after the answer to a later one.
    #[error(
        "done at another time than between request and answer, at generation {generation}: {event:?}"
    )]
    Misplaced {
        generation: i64,
        /// The write or the reading.
        event: Box<Event>,
    },
    /// A write was taken though its consumer had another generation.
    #[error("acknowledged with a consumer's generation of another time: {0:?}")]
    Stale(Box<Event>),
    /// It was refused though there was room all the time.
    #[error("refused as full, and there was room all the time: {0:?}")]
    Room(Box<Event>),
    /// A reading shows what was not so at its generation.
    #[error("seen and not so: {0:?}")]
    Seen(Box<Event>),
    /// A failure, where nothing failed.
    #[error("a failure: {0:?}")]
    Failed(Box<Event>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOrder {
    /// For each event of the history, the number of writes before it. None for a write that did not take effect, or
    /// that cannot be distinguished from one that did not.
    pub places: Vec<Option<usize>>,
    /// The writes of the history, by their places.
    pub writes: Vec<usize>,
}

/// Finds the places of a history without a `Release` call.
pub fn place(
    history: &ContestHistory,
    testimony: &ProviderChangeLog,
) -> Result<WriteOrder, OrderViolation> {
    place_of(history, testimony, |_| true)
}

/// The same where only some of the requests need be right: what others get wrong is as it is.
pub fn place_of(
    history: &ContestHistory,
    testimony: &ProviderChangeLog,
    judged: impl Fn(&Event) -> bool,
) -> Result<WriteOrder, OrderViolation> {
    let mut order = WriteOrder {
        places: vec![None; history.events.len()],
        writes: Vec::new(),
    };
    let mut states = vec![AllocationModel::default()];
    let mut last = history.generation;
    let begun = testimony.steps.iter();
    for step in begun.skip_while(|step| step.generation <= history.generation) {
        let used = states.last().map_or(0, AllocationModel::used);
        for step in one_by_one(step, last, used, history.capacity)? {
            let now = states.last().cloned().unwrap_or_default();
            let found = asked_for(history, &order, &now, &step);
            let at = found.ok_or_else(|| OrderViolation::Nobody(step.clone()))?;
            let event = &history.events[at];
            let ContestCall::Write(wants) = &event.call else {
                return Err(OrderViolation::Nobody(step.clone()));
            };
            if judged(event) && !now.is_current(wants) {
                return Err(OrderViolation::Stale(Box::new(event.clone())));
            }
            let after = now.after(wants);
            if judged(event) && !now.admits(wants, history.capacity) {
                return Err(OrderViolation::TooMuch {
                    generation: step.generation,
                    used: after.used(),
                    capacity: history.capacity,
                });
            }
            order.places[at] = Some(order.writes.len());
            order.writes.push(at);
            states.push(after);
        }
        last = step.generation;
    }
    writes_are_in_time(history, &order)?;
    for (at, event) in history.events.iter().enumerate() {
        if !judged(event) {
            continue;
        }
        match (event.answer(), order.places[at]) {
            (Some(ContestAnswer::Done), None) => {
                return Err(OrderViolation::Lost(Box::new(event.clone())));
            }
            // A server that was slow for too long is stopped, and its outcome is unknown.
            (Some(ContestAnswer::Failed(503)), _) => {}
            (Some(ContestAnswer::Failed(_)), _) => {
                return Err(OrderViolation::Failed(Box::new(event.clone())));
            }
            _ => {}
        }
    }
    place_the_rest(history, &mut order, &states, judged)?;
    Ok(order)
}

/// Splits a step of several generations: one transaction of as many claims, each of one consumer. The states between
/// them are invisible, so any order is possible. The order with the highest intermediate usage is taken, because the
/// refused claims of that transaction found no room.
fn one_by_one(
    step: &ProviderChange,
    last: i64,
    used: u64,
    capacity: u64,
) -> Result<Vec<ProviderChange>, OrderViolation> {
    let claims = usize::try_from(step.generation - last).unwrap_or(0);
    if claims == 1 {
        return Ok(vec![step.clone()]);
    }
    if claims < step.changes.len().max(1) {
        return Err(OrderViolation::Generations {
            last,
            found: step.generation,
        });
    }
    let all: BTreeSet<(i64, u32)> = step.changes.iter().map(|(it, by)| (*by, *it)).collect();
    let first = fullest(&all, capacity.cast_signed() - used.cast_signed());
    // In each part, releases come before claims.
    let order = first.iter().chain(all.difference(&first));
    let mut changes: Vec<_> = order
        .map(|(amount, consumer)| BTreeMap::from([(*consumer, *amount)]))
        .collect();
    // Consumers that keep what they held.
    changes.resize(claims, BTreeMap::new());
    let steps = (last + 1..).zip(changes);
    Ok(steps
        .map(|(generation, changes)| ProviderChange {
            generation,
            changes,
        })
        .collect())
}

/// Those of the changes that together come nearest to this room, and not beyond it.
fn fullest(changes: &BTreeSet<(i64, u32)>, room: i64) -> BTreeSet<(i64, u32)> {
    let mut sums: BTreeMap<i64, BTreeSet<(i64, u32)>> = BTreeMap::from([(0, BTreeSet::new())]);
    for change in changes {
        for (sum, of) in sums.clone() {
            sums.entry(sum + change.0).or_insert_with(|| {
                let mut with = of;
                with.insert(*change);
                with
            });
        }
    }
    let fit = sums.range(..=room).next_back();
    fit.map(|(_, of)| of.clone()).unwrap_or_default()
}

/// The first event that comes to this step and has no place yet.
fn asked_for(
    history: &ContestHistory,
    order: &WriteOrder,
    now: &AllocationModel,
    step: &ProviderChange,
) -> Option<usize> {
    let mut found: Option<usize> = None;
    for (at, event) in history.events.iter().enumerate() {
        let may = event.is_unknown() || event.answer() == Some(&ContestAnswer::Done);
        let ContestCall::Write(wants) = &event.call else {
            continue;
        };
        if may && order.places[at].is_none() && changes(now, &now.after(wants)) == step.changes {
            let earlier = found.is_none_or(|found| history.events[found].asked > event.asked);
            found = if earlier { Some(at) } else { found };
        }
    }
    found
}

fn changes(before: &AllocationModel, after: &AllocationModel) -> BTreeMap<u32, i64> {
    let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
    for (consumer, (units, _)) in &after.held {
        *changes.entry(*consumer).or_default() += units.cast_signed();
    }
    for (consumer, (units, _)) in &before.held {
        *changes.entry(*consumer).or_default() -= units.cast_signed();
    }
    changes.retain(|_, units| *units != 0);
    changes
}

/// No write is placed before one that was finished when it was requested.
fn writes_are_in_time(history: &ContestHistory, order: &WriteOrder) -> Result<(), OrderViolation> {
    let mut latest = 0;
    for (place, at) in order.writes.iter().enumerate() {
        let event = &history.events[*at];
        latest = latest.max(event.asked);
        if event.over() < latest {
            return Err(misplaced(history, place, event));
        }
    }
    Ok(())
}

fn misplaced(history: &ContestHistory, place: usize, event: &Event) -> OrderViolation {
    OrderViolation::Misplaced {
        generation: history.generation + 1 + i64::try_from(place).unwrap_or(i64::MAX),
        event: Box::new(event.clone()),
    }
}

/// Where readings and refusals were true: each at the first place that its time and those before it allow.
fn place_the_rest(
    history: &ContestHistory,
    order: &mut WriteOrder,
    states: &[AllocationModel],
    judged: impl Fn(&Event) -> bool,
) -> Result<(), OrderViolation> {
    let writes: Vec<&Event> = order.writes.iter().map(|at| &history.events[*at]).collect();
    let mut others: Vec<usize> = (0..history.events.len())
        .filter(|at| order.places[*at].is_none() && !history.events[*at].is_unknown())
        .filter(|at| judged(&history.events[*at]))
        .collect();
    others.sort_by_key(|at| history.events[*at].asked);
    for (index, at) in others.iter().copied().enumerate() {
        let event = &history.events[at];
        // After every write that was over before, and before each that was asked for later.
        let over = writes.iter().rposition(|write| event.is_after(write));
        let later = writes.iter().position(|write| write.is_after(event));
        let before = others[..index].iter();
        let before = before.filter(|it| event.is_after(&history.events[**it]));
        let before = before.filter_map(|it| order.places[*it]).max();
        let first = over.map_or(0, |over| over + 1).max(before.unwrap_or(0));
        let last = later.unwrap_or(writes.len());
        let is_true = |place: &usize| match (&event.call, event.answer()) {
            (ContestCall::Write(wants), Some(ContestAnswer::Full)) => {
                !states[*place].admits(wants, history.capacity)
            }
            (ContestCall::Read, Some(ContestAnswer::Seen { generation, held })) => {
                usize::try_from(generation - history.generation) == Ok(*place)
                    && states[*place].units() == *held
            }
            (ContestCall::Write(_) | ContestCall::Release(_), Some(ContestAnswer::Conflict)) => {
                true
            }
            _ => false,
        };
        let found = (first..=last).find(is_true);
        order.places[at] = Some(found.ok_or_else(|| match &event.call {
            ContestCall::Read => OrderViolation::Seen(Box::new(event.clone())),
            _ => OrderViolation::Room(Box::new(event.clone())),
        })?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(generation: i64, changes: &[(u32, i64)]) -> ProviderChange {
        ProviderChange {
            generation,
            changes: changes.iter().copied().collect(),
        }
    }

    #[test]
    fn a_step_of_several_generations_is_as_many_claims() {
        let apart = one_by_one(&step(5, &[(1, 2), (2, -1)]), 2, 3, 4);
        let expected = [step(3, &[(2, -1)]), step(4, &[(1, 2)]), step(5, &[])];
        assert_eq!(apart, Ok(expected.into()));
        let of_one = step(3, &[(1, 2), (2, 1)]);
        assert_eq!(one_by_one(&of_one, 2, 0, 4), Ok(vec![of_one]));
        for (last, found) in [(2, 2), (2, 1), (2, 4)] {
            let claims = step(found, &[(1, 1), (2, 1), (3, 1)]);
            let wrong = OrderViolation::Generations { last, found };
            assert_eq!(one_by_one(&claims, last, 0, 4), Err(wrong));
        }
    }

    #[test]
    fn claims_of_a_step_are_ordered_by_the_highest_possible_usage() {
        let claims = step(5, &[(1, -2), (2, 2), (3, -1)]);
        let apart = one_by_one(&claims, 2, 3, 4);
        let expected = [step(3, &[(3, -1)]), step(4, &[(2, 2)]), step(5, &[(1, -2)])];
        assert_eq!(apart, Ok(expected.into()));
    }
}
