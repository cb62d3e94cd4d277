//! The order of logins and who gets a place, without threads and time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};

use super::*;

fn address(number: u8) -> ClientAddress {
    ClientAddress::from(Some(IpAddr::from(Ipv4Addr::new(192, 0, 2, number))))
}

/// The address of all programs of this host, and of all clients of a unix socket.
fn shared() -> ClientAddress {
    ClientAddress::default()
}

fn unknown(name: impl ToString, source: ClientAddress) -> LoginAttempt {
    LoginAttempt {
        subject: LoginSubject::UnknownUser(name.to_string()),
        source,
        is_trusted: false,
    }
}

fn user(id: &str, source: ClientAddress) -> LoginAttempt {
    LoginAttempt {
        subject: LoginSubject::User(id.to_owned()),
        source,
        is_trusted: false,
    }
}

fn trusted(id: &str, source: ClientAddress) -> LoginAttempt {
    LoginAttempt {
        is_trusted: true,
        ..user(id, source)
    }
}

/// The waiters are the ids of the places.
#[derive(Default)]
struct Logins {
    queue: LoginQueue<u64>,
    running: Vec<LoginAttempt>,
}

impl Logins {
    /// The login arrives, and waits if it has a place.
    fn arrive(&mut self, attempt: LoginAttempt) -> Option<u64> {
        let place = self.queue.admit(attempt)?;
        assert!(self.queue.wait(place, place));
        Some(place)
    }

    /// Wrong logins of different unknown names. Returns how many have a place.
    fn flood(&mut self, source: ClientAddress, logins: usize) -> usize {
        let admitted = (0..logins).filter_map(|name| self.arrive(unknown(name, source)));
        admitted.count()
    }

    /// Logins start until all threads are busy.
    fn fill_threads(&mut self) {
        while let Some((attempt, place)) = self.queue.start() {
            self.queue.leave(place);
            self.running.push(attempt);
        }
    }

    /// The oldest verification ends. Returns the login that starts then.
    fn next(&mut self) -> Option<LoginAttempt> {
        let finished = self.running.remove(0);
        self.queue.finish(&finished);
        self.fill_threads();
        (self.running.len() == AT_ONCE).then(|| self.running.last().cloned())?
    }

    /// How many others start before this login. None: it starts as soon as one of the running verifications ends.
    fn others_before(&mut self, attempt: &LoginAttempt) -> usize {
        let mut others = 0;
        while self.next().unwrap() != *attempt {
            others += 1;
        }
        others
    }
}

/// So many wrong logins of unknown names from each of these addresses. All threads are busy with them.
fn flooded(sources: &[ClientAddress], each: usize) -> Logins {
    let mut logins = Logins::default();
    for source in sources {
        logins.flood(*source, each);
    }
    logins.fill_threads();
    logins
}

#[test]
fn a_flood_of_wrong_logins_from_one_address_delays_the_login_of_another_address_by_at_most_one_verification()
 {
    let mut logins = flooded(&[address(1)], 100);
    for name in ["alice", "bob", "carol"] {
        let login = user(name, address(2));
        logins.arrive(login.clone()).unwrap();
        assert_eq!(logins.others_before(&login), 0, "{name}");
        // The others of the flood go on.
        assert_eq!(logins.next().unwrap().source, address(1));
    }
}

#[test]
fn a_flood_from_six_addresses_delays_the_login_of_another_address_by_at_most_one_login_of_each() {
    let mut logins = flooded(&[1, 2, 3, 4, 5, 6].map(address), 100);
    let login = user("alice", address(7));
    logins.arrive(login.clone()).unwrap();
    assert!(logins.others_before(&login) <= 6);
}

#[test]
fn a_flood_from_many_addresses_delays_a_user_at_a_trusted_address_by_at_most_one_verification() {
    let sources: Vec<_> = (1..=100).map(address).collect();
    let mut logins = flooded(&sources, 4);
    for _ in 0..3 {
        let login = trusted("alice", address(200));
        logins.arrive(login.clone()).unwrap();
        assert_eq!(logins.others_before(&login), 0);
        assert!(!logins.next().unwrap().is_trusted, "the others go on");
    }
}

#[test]
fn a_flood_from_a_shared_address_delays_the_users_that_logged_in_from_there_by_at_most_one_verification()
 {
    let mut logins = flooded(&[shared()], 100);
    let login = trusted("nova", shared());
    logins.arrive(login.clone()).unwrap();
    assert_eq!(logins.others_before(&login), 0);
}

#[test]
fn a_flood_for_one_name_delays_other_users_of_the_same_address_by_at_most_one_verification() {
    let mut logins = Logins::default();
    for _ in 0..100 {
        logins.arrive(user("admin", shared()));
    }
    logins.fill_threads();
    let login = user("alice", shared());
    logins.arrive(login.clone()).unwrap();
    assert_eq!(logins.others_before(&login), 0);
}

#[test]
fn addresses_take_turns_and_the_logins_of_a_user_at_an_address_keep_their_order() {
    let mut logins = Logins::default();
    let mut queue = LoginQueue::default();
    let mut arrive = |attempt: LoginAttempt| {
        let place = queue.admit(attempt).unwrap();
        assert!(queue.wait(place, place));
        place
    };
    let firsts: Vec<u64> = (0..4).map(|_| arrive(user("a", address(1)))).collect();
    let others: Vec<u64> = (0..2).map(|_| arrive(user("b", address(2)))).collect();
    let mut started = Vec::new();
    while let Some((attempt, place)) = queue.start() {
        started.push(place);
        queue.finish(&attempt);
        queue.leave(place);
    }
    let expected = [
        firsts[0], others[0], firsts[1], others[1], firsts[2], firsts[3],
    ];
    assert_eq!(started, expected);
    assert!(queue.places.is_empty() && queue.groups.is_empty());
    // An address alone uses all threads.
    logins.flood(address(1), 3);
    logins.fill_threads();
    assert_eq!(logins.running.len(), AT_ONCE);
}

#[test]
fn one_address_has_a_quarter_of_the_places() {
    let mut logins = Logins::default();
    assert_eq!(logins.flood(address(1), 100), MAX_PLACES_PER_ADDRESS);
    assert_eq!(logins.arrive(user("alice", address(1))), None);
    assert!(logins.arrive(user("alice", address(2))).is_some());
}

#[test]
fn a_flood_from_a_few_addresses_leaves_places_for_further_addresses() {
    let mut logins = Logins::default();
    for number in 1..=6 {
        logins.flood(address(number), 100);
    }
    assert_eq!(logins.queue.places.len(), MAX_PLACES);
    for number in 7..=30 {
        let place = logins.arrive(user("alice", address(number)));
        assert!(place.is_some(), "{number}");
    }
    assert_eq!(logins.queue.places.len(), MAX_PLACES);
    for number in 7..=30 {
        let places = logins.queue.places.iter();
        let here = places.filter(|place| place.attempt.source == address(number));
        assert_eq!(here.count(), 1, "{number} keeps its place");
    }
}

#[test]
fn a_login_whose_place_was_taken_waits_no_longer() {
    let mut logins = Logins::default();
    let mut last = None;
    for number in 1..=4 {
        for name in 0..MAX_PLACES_PER_ADDRESS {
            last = logins.arrive(unknown(name, address(number)));
        }
    }
    logins.arrive(user("alice", address(5))).unwrap();
    let last = last.unwrap();
    assert!(!logins.queue.wait(last, last), "the newest of the flood");
    logins.queue.leave(last);
    assert_eq!(logins.queue.places.len(), MAX_PLACES);
}

#[test]
fn a_flood_for_one_name_leaves_places_for_other_users_of_the_same_address() {
    let mut logins = Logins::default();
    for _ in 0..100 {
        logins.arrive(user("admin", shared()));
    }
    for name in ["alice", "bob", "carol"] {
        assert!(logins.arrive(user(name, shared())).is_some(), "{name}");
    }
    assert_eq!(logins.queue.places.len(), MAX_PLACES_PER_ADDRESS);
}

#[test]
fn a_user_always_has_one_place_at_a_trusted_address() {
    let mut logins = Logins::default();
    for number in 1..=MAX_PLACES {
        logins.flood(address(u8::try_from(number % 250).unwrap()), 1);
    }
    assert_eq!(logins.flood(address(1), 100), 0);
    let first = logins.arrive(trusted("bob", address(1)));
    assert!(first.is_some());
    assert_eq!(logins.arrive(trusted("bob", address(1))), None);
    logins.queue.leave(first.unwrap());
    assert!(logins.arrive(trusted("bob", address(1))).is_some());
}

#[test]
fn a_login_that_leaves_or_ends_leaves_nothing_behind() {
    let mut logins = flooded(&[address(1), address(2), shared()], 20);
    let waiting: Vec<u64> = logins.queue.places.iter().map(|place| place.id).collect();
    for place in waiting {
        logins.queue.leave(place);
    }
    for attempt in std::mem::take(&mut logins.running) {
        logins.queue.finish(&attempt);
    }
    let queue = &logins.queue;
    assert!(queue.places.is_empty() && queue.groups.is_empty() && queue.running == 0);
}
