//! Tests of the checks themselves: histories that they must refuse or accept.

use std::collections::BTreeMap;

use berth_tests::contest::{
    ContestAnswer, ContestCall, ContestHistory, DesiredAllocation, Event, OrderViolation,
    ProviderChange, ProviderChangeLog, place,
};

use crate::claims::linear::{Verdict, search, verify};

const STEPS: u64 = 100_000;

fn want(consumer: u32, units: u64, generation: Option<i64>) -> DesiredAllocation {
    DesiredAllocation {
        consumer,
        units,
        generation,
    }
}

fn claim(consumer: u32, units: u64) -> ContestCall {
    ContestCall::Write(vec![want(consumer, units, None)])
}

/// A request of a writer of its own.
fn event(call: ContestCall, asked: u64, answered: Option<(u64, ContestAnswer)>) -> Event {
    Event {
        writer: 0,
        service: 0,
        call,
        asked,
        answered,
    }
}

fn done(call: ContestCall, asked: u64, answered: u64) -> Event {
    event(call, asked, Some((answered, ContestAnswer::Done)))
}

fn seen(asked: u64, generation: i64, held: &[(u32, u64)]) -> Event {
    let held = held.iter().copied().collect();
    event(
        ContestCall::Read,
        asked,
        Some((asked + 1, ContestAnswer::Seen { generation, held })),
    )
}

/// Two units, at generation 1.
fn history(events: Vec<Event>) -> ContestHistory {
    ContestHistory {
        capacity: 2,
        generation: 1,
        events,
    }
}

fn steps(steps: &[(i64, &[(u32, i64)])]) -> ProviderChangeLog {
    let steps = steps.iter().map(|(generation, changes)| ProviderChange {
        generation: *generation,
        changes: changes.iter().copied().collect(),
    });
    ProviderChangeLog {
        steps: steps.collect(),
    }
}

/// Both judges take it.
#[track_caller]
fn good(history: &ContestHistory, testimony: &ProviderChangeLog) {
    let order = place(history, testimony);
    let order = order.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(verify(history, &order), Verdict::Linearizable);
    assert_eq!(search(history, STEPS), Verdict::Linearizable);
}

#[test]
fn a_valid_history_is_accepted() {
    let events = vec![
        done(claim(1, 1), 0, 9),
        done(claim(2, 1), 1, 5),
        event(claim(3, 1), 2, Some((8, ContestAnswer::Full))),
        event(claim(4, 2), 3, Some((4, ContestAnswer::Conflict))),
        done(
            ContestCall::Write(vec![want(2, 0, Some(1)), want(5, 1, None)]),
            10,
            11,
        ),
        seen(12, 4, &[(1, 1), (5, 1)]),
    ];
    let testimony = steps(&[
        (1, &[]),
        (2, &[(2, 1)]),
        (3, &[(1, 1)]),
        (4, &[(2, -1), (5, 1)]),
    ]);
    good(&history(events), &testimony);
}

#[test]
fn an_unknown_outcome_may_have_been_or_not() {
    let lost = || event(claim(1, 2), 0, None);
    let not_done = history(vec![lost(), done(claim(2, 1), 1, 2), seen(3, 2, &[(2, 1)])]);
    good(&not_done, &steps(&[(2, &[(2, 1)])]));
    let full = event(claim(2, 1), 1, Some((2, ContestAnswer::Full)));
    let was_done = history(vec![lost(), full, seen(3, 2, &[(1, 2)])]);
    good(&was_done, &steps(&[(2, &[(1, 2)])]));
}

#[test]
fn one_unit_too_many_is_refused() {
    let events = vec![
        done(claim(1, 1), 0, 9),
        done(claim(2, 1), 1, 9),
        done(claim(3, 1), 2, 9),
    ];
    let history = history(events);
    let testimony = steps(&[(2, &[(1, 1)]), (3, &[(2, 1)]), (4, &[(3, 1)])]);
    assert_eq!(
        place(&history, &testimony),
        Err(OrderViolation::TooMuch {
            generation: 4,
            used: 3,
            capacity: 2
        })
    );
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_unit_too_many_by_an_unknown_outcome_is_refused() {
    let events = vec![
        done(claim(1, 2), 0, 1),
        event(claim(2, 1), 2, None),
        seen(3, 3, &[(1, 2), (2, 1)]),
    ];
    let history = history(events);
    let testimony = steps(&[(2, &[(1, 2)]), (3, &[(2, 1)])]);
    let wrong = place(&history, &testimony);
    assert!(
        matches!(wrong, Err(OrderViolation::TooMuch { .. })),
        "{wrong:?}"
    );
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_lost_acknowledged_write_is_refused() {
    let events = vec![done(claim(1, 1), 0, 1), seen(2, 1, &[])];
    let history = history(events);
    let wrong = place(&history, &steps(&[]));
    assert!(matches!(wrong, Err(OrderViolation::Lost(_))), "{wrong:?}");
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_half_of_a_write_is_refused() {
    let two = ContestCall::Write(vec![want(1, 1, None), want(2, 1, None)]);
    let events = vec![event(two, 0, None), seen(2, 2, &[(1, 1)])];
    let history = history(events);
    let wrong = place(&history, &steps(&[(2, &[(1, 1)])]));
    assert!(matches!(wrong, Err(OrderViolation::Nobody(_))), "{wrong:?}");
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_write_that_was_refused_and_done_is_refused() {
    let refused = event(claim(1, 1), 0, Some((1, ContestAnswer::Conflict)));
    let history = history(vec![refused, seen(2, 2, &[(1, 1)])]);
    let wrong = place(&history, &steps(&[(2, &[(1, 1)])]));
    assert!(matches!(wrong, Err(OrderViolation::Nobody(_))), "{wrong:?}");
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn refused_as_full_with_room_all_the_time_is_refused() {
    let full = event(claim(2, 1), 2, Some((3, ContestAnswer::Full)));
    let history = history(vec![done(claim(1, 1), 0, 1), full]);
    let wrong = place(&history, &steps(&[(2, &[(1, 1)])]));
    assert!(matches!(wrong, Err(OrderViolation::Room(_))), "{wrong:?}");
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_write_after_an_answered_one_but_before_it_in_order_is_refused() {
    let events = vec![
        done(claim(1, 1), 0, 1),
        done(claim(2, 1), 2, 3),
        seen(4, 3, &[(1, 1), (2, 1)]),
    ];
    let history = history(events);
    let wrong = place(&history, &steps(&[(2, &[(2, 1)]), (3, &[(1, 1)])]));
    assert!(
        matches!(wrong, Err(OrderViolation::Misplaced { .. })),
        "{wrong:?}"
    );
    // By answers alone it may have been the other way round.
    assert_eq!(search(&history, STEPS), Verdict::Linearizable);
}

#[test]
fn a_reading_that_shows_an_old_state_is_refused() {
    let events = vec![
        done(claim(1, 1), 0, 1),
        done(claim(2, 1), 2, 3),
        seen(4, 2, &[(1, 1)]),
    ];
    let history = history(events);
    let wrong = place(&history, &steps(&[(2, &[(1, 1)]), (3, &[(2, 1)])]));
    assert!(matches!(wrong, Err(OrderViolation::Seen(_))), "{wrong:?}");
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_write_with_the_generation_of_another_time_is_refused() {
    let change = ContestCall::Write(vec![want(1, 2, Some(2))]);
    let history = history(vec![done(claim(1, 1), 0, 1), done(change, 2, 3)]);
    let wrong = place(&history, &steps(&[(2, &[(1, 1)]), (3, &[(1, 1)])]));
    assert!(matches!(wrong, Err(OrderViolation::Stale(_))), "{wrong:?}");
    assert_eq!(search(&history, STEPS), Verdict::Refused);
}

#[test]
fn a_missing_generation_is_refused() {
    let history = history(vec![done(claim(1, 1), 0, 1)]);
    let wrong = place(&history, &steps(&[(3, &[(1, 1)])]));
    // Two claims were applied together, and no request explains one of them.
    assert!(matches!(wrong, Err(OrderViolation::Nobody(_))), "{wrong:?}");
    let wrong = place(&history, &steps(&[(1, &[]), (1, &[(1, 1)])]));
    assert!(wrong.is_err(), "{wrong:?}");
}

#[test]
fn a_release_by_delete_is_part_of_the_search() {
    let events = |reported| {
        vec![
            done(claim(1, 2), 0, 1),
            done(ContestCall::Release(1), 2, 5),
            event(claim(2, 1), 3, Some((4, reported))),
            event(
                ContestCall::Release(1),
                6,
                Some((7, ContestAnswer::NotThere)),
            ),
        ]
    };
    for reported in [ContestAnswer::Done, ContestAnswer::Full] {
        let verdict = search(&history(events(reported)), STEPS);
        assert_eq!(verdict, Verdict::Linearizable);
    }
    let twice = vec![
        done(claim(1, 2), 0, 1),
        done(ContestCall::Release(1), 2, 3),
        done(ContestCall::Release(1), 4, 5),
    ];
    assert_eq!(search(&history(twice), STEPS), Verdict::Refused);
}

#[test]
fn a_search_that_is_too_long_is_not_a_refusal() {
    let mut events: Vec<Event> = (0..12).map(|n| done(claim(n, 1), 0, 100)).collect();
    events.push(seen(
        101,
        13,
        &BTreeMap::from_iter((0..12).map(|n| (n, 1)))
            .into_iter()
            .collect::<Vec<_>>(),
    ));
    assert_eq!(search(&history(events.clone()), 500), Verdict::Undecided);
    events.truncate(3);
    assert_eq!(search(&history(events), 500), Verdict::Refused);
}
