//! Tests of the throttle, with simulated time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::backoff::{FORGET, LONGEST_PAUSE};
use super::*;

fn user(id: &str) -> LoginSubject {
    LoginSubject::User(id.to_owned())
}

fn from(number: u8) -> ClientAddress {
    ClientAddress::from(Some(IpAddr::from(Ipv4Addr::new(192, 0, 2, number))))
}

fn wrong(
    guesses: &LoginThrottle,
    who: &LoginSubject,
    source: ClientAddress,
    times: u32,
    now: Instant,
) {
    let waiter = guesses.enqueue(who, source);
    for _ in 0..times {
        waiter.record_failure(now);
    }
}

fn turn(
    guesses: &LoginThrottle,
    who: &LoginSubject,
    source: ClientAddress,
    now: Instant,
) -> AttemptSlot {
    guesses.enqueue(who, source).try_acquire(now)
}

/// The number of attempts that may run within an hour, with one attempt every 10 ms from rotating addresses.
fn looked_at(who: &LoginSubject, addresses: u8) -> u32 {
    let (guesses, start) = (LoginThrottle::default(), Instant::now());
    let mut count = 0;
    for (tick, address) in (0..360_000).zip((0..addresses).cycle()) {
        let now = start + Duration::from_millis(10 * tick);
        let waiter = guesses.enqueue(who, from(address));
        if waiter.try_acquire(now) == AttemptSlot::Now {
            waiter.record_failure(now);
            count += 1;
        }
    }
    count
}

#[test]
fn an_hour_of_guessing_is_worth_some_nine_hundred_guesses_from_anywhere_whether_there_is_such_a_user_or_not()
 {
    for addresses in [1, 200] {
        let known = looked_at(&user("u"), addresses);
        assert!((890..920).contains(&known), "{known}");
        let stranger = LoginSubject::UnknownUser("nobody".to_owned());
        assert_eq!(looked_at(&stranger, addresses), known);
    }
}

#[test]
fn one_users_wrong_passwords_hold_up_nobody_else_and_a_right_one_forgets_them() {
    let (guesses, now) = (LoginThrottle::default(), Instant::now());
    let (a, b) = (user("a"), user("b"));
    wrong(&guesses, &a, from(1), 20, now);
    let later = now + LONGEST_PAUSE;
    assert_eq!(turn(&guesses, &a, from(1), now), AttemptSlot::Later(later));
    assert_eq!(turn(&guesses, &b, from(1), now), AttemptSlot::Now);
    assert_eq!(turn(&guesses, &a, from(1), later), AttemptSlot::Now);
    assert!(
        matches!(turn(&guesses, &a, from(1), later), AttemptSlot::Later(_)),
        "one at a time"
    );
    guesses.enqueue(&a, from(1)).record_success(later);
    for _ in 0..2 {
        assert_eq!(turn(&guesses, &a, from(1), later), AttemptSlot::Now);
    }
}

#[test]
fn wrong_passwords_of_yesterday_are_forgotten() {
    let (guesses, now) = (LoginThrottle::default(), Instant::now());
    wrong(&guesses, &user("a"), from(1), 20, now);
    let tomorrow = now + FORGET + Duration::from_secs(1);
    for _ in 0..2 {
        assert_eq!(
            turn(&guesses, &user("a"), from(1), tomorrow),
            AttemptSlot::Now
        );
    }
}

#[test]
fn a_user_is_held_up_at_an_address_that_it_has_logged_in_from_by_wrong_passwords_from_there_alone()
{
    let (guesses, now) = (LoginThrottle::default(), Instant::now());
    let a = user("a");
    guesses.enqueue(&a, from(1)).record_success(now);
    let crowd: Vec<_> = (0..80).map(|_| guesses.enqueue(&a, from(2))).collect();
    for guess in &crowd {
        guess.record_failure(now);
    }
    for _ in 0..3 {
        assert_eq!(turn(&guesses, &a, from(1), now), AttemptSlot::Now);
    }
    wrong(&guesses, &a, from(1), 20, now);
    assert!(matches!(
        turn(&guesses, &a, from(1), now),
        AttemptSlot::Later(_)
    ));
}

#[test]
fn a_crowd_where_the_user_is_known_holds_up_nobody_elsewhere() {
    let (guesses, mut now) = (LoginThrottle::default(), Instant::now());
    let a = user("a");
    guesses.enqueue(&a, from(1)).record_success(now);
    let crowd: Vec<_> = (0..80).map(|_| guesses.enqueue(&a, from(1))).collect();
    wrong(&guesses, &a, from(3), 20, now);
    for _ in 0..3 {
        now += LONGEST_PAUSE;
        assert_eq!(turn(&guesses, &a, from(2), now), AttemptSlot::Now);
        wrong(&guesses, &a, from(2), 1, now);
    }
    drop(crowd);
}

#[test]
fn an_address_where_a_crowd_waits_has_every_other_turn_where_another_waits_too() {
    let (guesses, mut now) = (LoginThrottle::default(), Instant::now());
    let a = user("a");
    let crowd: Vec<_> = (0..80).map(|_| guesses.enqueue(&a, from(2))).collect();
    for guess in &crowd {
        guess.record_failure(now);
    }
    let own = guesses.enqueue(&a, from(1));
    let mut turns = Vec::new();
    for _ in 0..4 {
        now += LONGEST_PAUSE;
        let first = crowd
            .iter()
            .find(|guess| guess.try_acquire(now) == AttemptSlot::Now);
        if let Some(guess) = first {
            guess.record_failure(now);
        }
        let is_own = own.try_acquire(now) == AttemptSlot::Now;
        if is_own {
            own.record_failure(now);
        }
        turns.push((first.is_some(), is_own));
    }
    assert_eq!(
        turns,
        [(true, false), (false, true), (true, false), (false, true)]
    );
}

#[test]
fn an_address_not_used_for_longest_is_forgotten_before_there_are_too_many() {
    let (guesses, start) = (LoginThrottle::default(), Instant::now());
    let a = user("a");
    for number in 0..=u32::try_from(MOST_KNOWN).unwrap() {
        let address = IpAddr::from(Ipv4Addr::from_bits(number));
        let source = ClientAddress::from(Some(address));
        let now = start + Duration::from_secs(u64::from(number));
        guesses.enqueue(&a, source).record_success(now);
    }
    let now = start + Duration::from_secs(1000);
    wrong(&guesses, &a, from(1), 20, now);
    let at = |number: u32| {
        let address = IpAddr::from(Ipv4Addr::from_bits(number));
        turn(&guesses, &a, ClientAddress::from(Some(address)), now)
    };
    assert!(matches!(at(0), AttemptSlot::Later(_)));
    assert_eq!(at(1), AttemptSlot::Now);
}
