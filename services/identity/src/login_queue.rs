//! The queue of logins for the threads that verify passwords. No address and no user delays the others.
//!
//! Groups of logins take turns, at three levels: users at addresses from which they have logged in before and all other logins; then
//! the addresses; then the users at an address. So the users behind a proxy take turns too. At each level the group with the fewest
//! running logins is next, of those the one whose last turn is the longest ago. Within a group the first login that came is next.
//!
//! ```text
//! waiting: a1 a2 a3 a4 ... , then b1       one thread, a1 runs: next b1, a2, a3, a4 ...
//! ```
//!
//! A login has a place from its arrival to its end. When all places are taken, a new login takes one from the address with most of them.

use std::collections::HashMap;

use berth_http::ClientAddress;

use crate::login_throttle::LoginSubject;

/// The number of passwords verified concurrently. Each may use a whole core and 256 MiB.
const AT_ONCE: usize = 2;
/// The maximum number of places, and of those of one address. Reserved places do not count.
const MAX_PLACES: usize = 256;
const MAX_PLACES_PER_ADDRESS: usize = 64;

/// A login in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginAttempt {
    pub(crate) subject: LoginSubject,
    pub(crate) source: ClientAddress,
    /// Whether the user has logged in from the address before.
    pub(crate) is_trusted: bool,
}

/// Logins that have one turn together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TurnGroup {
    Trust(bool),
    Address(bool, ClientAddress),
    Subject(bool, ClientAddress, LoginSubject),
}

/// The levels at which groups take turns, the outermost first.
const LEVELS: [fn(&LoginAttempt) -> TurnGroup; 3] = [
    |attempt| TurnGroup::Trust(attempt.is_trusted),
    |attempt| TurnGroup::Address(attempt.is_trusted, attempt.source),
    |attempt| TurnGroup::Subject(attempt.is_trusted, attempt.source, attempt.subject.clone()),
];

/// The state of a group that has waiting or running logins.
#[derive(Debug)]
struct GroupTurn {
    running: usize,
    waiting: usize,
    /// When its last turn was, or when it came.
    last: u64,
}

#[derive(Debug)]
struct QueuePlace<T> {
    id: u64,
    attempt: LoginAttempt,
    /// Outside the limits: the first place of a user at a trusted address.
    is_reserved: bool,
    /// While the login waits for a thread: how it learns of its turn.
    waiter: Option<T>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct LoginQueue<T> {
    /// In the order of arrival.
    places: Vec<QueuePlace<T>>,
    groups: HashMap<TurnGroup, GroupTurn>,
    running: usize,
    /// Counts arrivals and turns.
    counter: u64,
}

impl<T> Default for LoginQueue<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            groups: HashMap::new(),
            running: 0,
            counter: 0,
        }
    }
}

impl<T> LoginQueue<T> {
    /// Gives a login a place, and returns the id of the place. `None`: all places are taken, and no other address (no other user of
    /// this address) has more of them.
    pub(crate) fn admit(&mut self, attempt: LoginAttempt) -> Option<u64> {
        let has_reserved = self
            .places
            .iter()
            .any(|place| place.is_reserved && place.attempt == attempt);
        let is_reserved = attempt.is_trusted && !has_reserved;
        if !is_reserved && self.is_full_for(attempt.source) {
            let replaceable = self.replaceable(&attempt)?;
            self.leave(replaceable);
        }
        let id = self.tick();
        self.places.push(QueuePlace {
            id,
            attempt,
            is_reserved,
            waiter: None,
        });
        Some(id)
    }

    /// The places that count.
    fn counted(&self) -> impl Iterator<Item = &QueuePlace<T>> {
        self.places.iter().filter(|place| !place.is_reserved)
    }

    fn is_full_for(&self, source: ClientAddress) -> bool {
        let all = self.counted().count();
        all >= MAX_PLACES || self.is_address_full(source)
    }

    fn is_address_full(&self, source: ClientAddress) -> bool {
        let here = self
            .counted()
            .filter(|place| place.attempt.source == source);
        here.count() >= MAX_PLACES_PER_ADDRESS
    }

    /// The place that a new login takes when the queue is full: the newest one of the address that has most places. If only the
    /// address is full: the newest one of the user that has most places there.
    fn replaceable(&self, newcomer: &LoginAttempt) -> Option<u64> {
        let mut addresses: HashMap<ClientAddress, usize> = HashMap::new();
        let mut subjects: HashMap<(ClientAddress, &LoginSubject), usize> = HashMap::new();
        for QueuePlace { attempt, .. } in self.counted() {
            *addresses.entry(attempt.source).or_default() += 1;
            let subject = (attempt.source, &attempt.subject);
            *subjects.entry(subject).or_default() += 1;
        }
        let of_address = |it: &LoginAttempt| addresses.get(&it.source).copied().unwrap_or(0);
        let of_subject = |it: &LoginAttempt| {
            let subject = (it.source, &it.subject);
            subjects.get(&subject).copied().unwrap_or(0)
        };
        let is_address_full = self.is_address_full(newcomer.source);
        let candidates = self
            .counted()
            .filter(|place| !is_address_full || place.attempt.source == newcomer.source);
        let last = candidates.max_by_key(|place| {
            let attempt = &place.attempt;
            (of_address(attempt), of_subject(attempt), place.id)
        })?;
        // Otherwise two that have equally many would take places from each other without end.
        let has_more = match is_address_full {
            true => of_subject(&last.attempt) > of_subject(newcomer) + 1,
            false => of_address(&last.attempt) > of_address(newcomer) + 1,
        };
        has_more.then_some(last.id)
    }

    /// Lets the login of a place wait for its turn. `false`: another login has taken the place.
    pub(crate) fn wait(&mut self, id: u64, waiter: T) -> bool {
        self.tick();
        let Some(place) = self.places.iter_mut().find(|place| place.id == id) else {
            return false;
        };
        let attempt = place.attempt.clone();
        if place.waiter.replace(waiter).is_none() {
            self.update(&attempt, |turn| turn.waiting += 1);
        }
        true
    }

    /// The next login, if a thread is free. The thread is in use until [`finish`](Self::finish).
    pub(crate) fn start(&mut self) -> Option<(LoginAttempt, T)> {
        if self.running >= AT_ONCE {
            return None;
        }
        let places = self.places.iter();
        let mut waiting: Vec<_> = places.filter(|place| place.waiter.is_some()).collect();
        for level in LEVELS {
            let turn = |place: &QueuePlace<T>| {
                let turn = self.groups.get(&level(&place.attempt))?;
                Some((turn.running, turn.last))
            };
            let next = waiting.iter().map(|place| turn(place)).min()?;
            waiting.retain(|place| turn(place) == next);
        }
        let id = waiting.first()?.id;
        let last = self.tick();
        let place = self.places.iter_mut().find(|place| place.id == id)?;
        let waiter = place.waiter.take()?;
        let attempt = place.attempt.clone();
        self.running += 1;
        self.update(&attempt, |turn| {
            turn.waiting = turn.waiting.saturating_sub(1);
            turn.running += 1;
            turn.last = last;
        });
        Some((attempt, waiter))
    }

    /// Frees the thread of a started login.
    pub(crate) fn finish(&mut self, attempt: &LoginAttempt) {
        self.running = self.running.saturating_sub(1);
        self.update(attempt, |turn| {
            turn.running = turn.running.saturating_sub(1);
        });
    }

    /// Gives the place up, if the login still has it.
    pub(crate) fn leave(&mut self, id: u64) {
        let Some(index) = self.places.iter().position(|place| place.id == id) else {
            return;
        };
        let place = self.places.remove(index);
        if place.waiter.is_some() {
            self.update(&place.attempt, |turn| {
                turn.waiting = turn.waiting.saturating_sub(1);
            });
        }
    }

    fn tick(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Changes the groups of a login. Those without waiting and running logins are forgotten.
    fn update(&mut self, attempt: &LoginAttempt, change: impl Fn(&mut GroupTurn)) {
        for level in LEVELS {
            let group = level(attempt);
            let turn = self.groups.entry(group.clone()).or_insert(GroupTurn {
                running: 0,
                waiting: 0,
                last: self.counter,
            });
            change(turn);
            if turn.running == 0 && turn.waiting == 0 {
                self.groups.remove(&group);
            }
        }
    }
}

#[cfg(test)]
mod tests;
