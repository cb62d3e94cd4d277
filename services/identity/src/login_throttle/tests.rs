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

fn fail(
    throttle: &LoginThrottle,
    subject: &LoginSubject,
    source: ClientAddress,
    times: u32,
    now: Instant,
) {
    for _ in 0..times {
        throttle.record_failure(subject, source, now);
    }
}

/// The number of attempts that may run within an hour, with one attempt every 10 ms from rotating addresses.
fn attempts_in_an_hour(who: &LoginSubject, addresses: u8) -> u32 {
    let (throttle, start) = (LoginThrottle::default(), Instant::now());
    let mut count = 0;
    for (tick, address) in (0..360_000).zip((0..addresses).cycle()) {
        let now = start + Duration::from_millis(10 * tick);
        let source = from(address);
        if throttle.try_acquire(who, source, now) == AttemptSlot::Now {
            throttle.record_failure(who, source, now);
            count += 1;
        }
    }
    count
}

#[test]
fn an_hour_of_guessing_is_worth_some_nine_hundred_throttle_from_anywhere_whether_there_is_such_a_user_or_not()
 {
    for addresses in [1, 200] {
        let known = attempts_in_an_hour(&user("u"), addresses);
        assert!((890..920).contains(&known), "{known}");
        let unknown = LoginSubject::UnknownUser("nobody".to_owned());
        assert_eq!(attempts_in_an_hour(&unknown, addresses), known);
    }
}

#[test]
fn the_wrong_passwords_of_one_user_delay_no_other_user_and_a_right_one_forgets_them() {
    let (throttle, now) = (LoginThrottle::default(), Instant::now());
    let (a, b) = (user("a"), user("b"));
    fail(&throttle, &a, from(1), 20, now);
    let later = now + LONGEST_PAUSE;
    assert_eq!(
        throttle.try_acquire(&a, from(1), now),
        AttemptSlot::Later(later)
    );
    assert_eq!(throttle.try_acquire(&b, from(1), now), AttemptSlot::Now);
    assert_eq!(throttle.try_acquire(&a, from(1), later), AttemptSlot::Now);
    assert!(
        matches!(
            throttle.try_acquire(&a, from(1), later),
            AttemptSlot::Later(_)
        ),
        "one at a time"
    );
    throttle.record_success(&a, from(1), later);
    for _ in 0..2 {
        assert_eq!(throttle.try_acquire(&a, from(1), later), AttemptSlot::Now);
    }
}

#[test]
fn wrong_passwords_are_forgotten_after_a_quiet_time() {
    let (throttle, now) = (LoginThrottle::default(), Instant::now());
    fail(&throttle, &user("a"), from(1), 20, now);
    let tomorrow = now + FORGET + Duration::from_secs(1);
    for _ in 0..2 {
        assert_eq!(
            throttle.try_acquire(&user("a"), from(1), tomorrow),
            AttemptSlot::Now
        );
    }
}

#[test]
fn at_a_trusted_address_only_wrong_passwords_from_that_address_delay_a_user() {
    let (throttle, now) = (LoginThrottle::default(), Instant::now());
    let a = user("a");
    throttle.record_success(&a, from(1), now);
    fail(&throttle, &a, from(2), 80, now);
    for _ in 0..3 {
        assert_eq!(throttle.try_acquire(&a, from(1), now), AttemptSlot::Now);
    }
    fail(&throttle, &a, from(1), 20, now);
    assert!(matches!(
        throttle.try_acquire(&a, from(1), now),
        AttemptSlot::Later(_)
    ));
}

#[test]
fn beyond_the_maximum_the_least_recently_used_trusted_address_is_dropped() {
    let (throttle, start) = (LoginThrottle::default(), Instant::now());
    let a = user("a");
    for number in 0..=u32::try_from(MAX_TRUSTED).unwrap() {
        let address = IpAddr::from(Ipv4Addr::from_bits(number));
        let source = ClientAddress::from(Some(address));
        let now = start + Duration::from_secs(u64::from(number));
        throttle.record_success(&a, source, now);
    }
    let now = start + Duration::from_secs(1000);
    fail(&throttle, &a, from(1), 20, now);
    let at = |number: u32| {
        let address = IpAddr::from(Ipv4Addr::from_bits(number));
        throttle.try_acquire(&a, ClientAddress::from(Some(address)), now)
    };
    assert!(matches!(at(0), AttemptSlot::Later(_)));
    assert_eq!(at(1), AttemptSlot::Now);
}
