//! The guests as they were read, where that is still so. They are looked at far more often than they change, and to read the rows of
//! all of them costs more than anything that is done with one.
//!
//! One process owns the file (`Ownership::take`, before it is opened), so rows change only by what this process writes. What is
//! known of a guest is in doubt from before its rows are written ([`Known::doubt`]) until they have been read again afterwards; a
//! write that was given up, or that failed, may be done later, and leaves it in doubt until another one of that guest is through.
//! What is in doubt is read from the file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_model::ConsumerUuid;

use crate::record::GuestRecord;

/// The moment that something was done at: later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Moment(u64);

/// What is known of the guests of a file. Clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    now: Moment,
    /// None before all were read.
    guests: Option<BTreeMap<ConsumerUuid, Arc<GuestRecord>>>,
    doubts: BTreeMap<ConsumerUuid, Doubt>,
}

/// Why what is known of a guest may not be so.
#[derive(Debug, Default)]
struct Doubt {
    /// How many writes are under way.
    writes: usize,
    /// When one was given up last.
    given_up: Option<Moment>,
    /// What was read before this may be old.
    since: Moment,
}

/// What a reader finds.
pub(super) enum Reading<T> {
    Known(T),
    /// It is to be read, and told with this moment ([`Known::read`], [`Known::read_all`]).
    Due(Moment),
}

/// A write of a guest's rows that is under way; dropped before it is through, it was given up or failed.
#[must_use]
pub(super) struct Write {
    known: Known,
    guest: ConsumerUuid,
    began: Moment,
    is_through: bool,
}

impl Known {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write of this guest's rows begins.
    pub(super) fn doubt(&self, guest: ConsumerUuid) -> Write {
        let mut inner = self.inner();
        let began = inner.next();
        let doubt = inner.doubts.entry(guest).or_default();
        doubt.writes += 1;
        doubt.since = began;
        drop(inner);
        Write {
            known: self.clone(),
            guest,
            began,
            is_through: false,
        }
    }

    /// One guest; none where the file has none of that UUID.
    pub(super) fn guest(&self, guest: ConsumerUuid) -> Reading<Option<Arc<GuestRecord>>> {
        let inner = self.inner();
        match &inner.guests {
            Some(guests) if !inner.doubts.contains_key(&guest) => {
                Reading::Known(guests.get(&guest).cloned())
            }
            _ => Reading::Due(inner.now),
        }
    }

    /// A guest was read, by a reading that began then.
    pub(super) fn read(
        &self,
        guest: ConsumerUuid,
        began: Moment,
        record: Option<&Arc<GuestRecord>>,
    ) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let Some(guests) = &mut inner.guests else {
            return;
        };
        let doubt = inner.doubts.get(&guest);
        // Where there is none any more, another reading was quicker, and this one may be older.
        if doubt.is_none_or(|doubt| !doubt.is_settled_by(began)) {
            return;
        }
        inner.doubts.remove(&guest);
        match record {
            Some(record) => guests.insert(guest, Arc::clone(record)),
            None => guests.remove(&guest),
        };
    }

    /// All guests that are known, and those that are to be read one by one; all of them are where nothing was read yet.
    pub(super) fn all(&self) -> Reading<(Vec<Arc<GuestRecord>>, Vec<ConsumerUuid>)> {
        let inner = self.inner();
        let Some(guests) = &inner.guests else {
            return Reading::Due(inner.now);
        };
        let doubts = &inner.doubts;
        let sure = guests
            .iter()
            .filter(|(guest, _)| !doubts.contains_key(guest));
        let sure = sure.map(|(_, record)| Arc::clone(record)).collect();
        Reading::Known((sure, doubts.keys().copied().collect()))
    }

    /// All guests were read, by a reading that began then.
    pub(super) fn read_all(&self, began: Moment, records: &[Arc<GuestRecord>]) {
        let mut inner = self.inner();
        if inner.guests.is_some() {
            // Another reading was quicker, and what was read of one guest since then may be newer than this.
            return;
        }
        let all = records.iter();
        let all = all.map(|record| (record.request.uuid(), Arc::clone(record)));
        inner.guests = Some(all.collect());
        inner.doubts.retain(|_, doubt| !doubt.is_settled_by(began));
    }
}

impl Inner {
    fn next(&mut self) -> Moment {
        self.now = Moment(self.now.0 + 1);
        self.now
    }
}

impl Doubt {
    /// Whether a reading that began then saw all that was written.
    fn is_settled_by(&self, began: Moment) -> bool {
        self.writes == 0 && self.given_up.is_none() && self.since <= began
    }
}

impl Write {
    /// It is through: whoever reads from now on reads what it wrote.
    pub(super) fn through(mut self) {
        self.is_through = true;
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let mut inner = self.known.inner();
        let now = inner.next();
        let Some(doubt) = inner.doubts.get_mut(&self.guest) else {
            return;
        };
        doubt.writes = doubt.writes.saturating_sub(1);
        doubt.since = now;
        doubt.given_up = match self.is_through {
            // One connection writes, one thing after the other: what was given up before this began is decided.
            true => doubt.given_up.filter(|given_up| *given_up > self.began),
            false => Some(now),
        };
    }
}

#[cfg(test)]
mod tests {
    use berth_virt::guest_spec::DesiredPower;

    use super::*;
    use crate::overrides::InstanceOverrides;
    use crate::record::Goal;
    use crate::samples::request;

    fn record(number: u32) -> GuestRecord {
        GuestRecord {
            request: request(number, &[]),
            course: Goal::Spawn,
            power: DesiredPower::Running,
            steps: BTreeMap::new(),
            devices: None,
            life: InstanceOverrides::default(),
        }
    }

    fn known(of: &[u32]) -> Known {
        let known = Known::default();
        let Reading::Due(began) = known.all() else {
            panic!("nothing was read yet")
        };
        let records: Vec<_> = of.iter().map(|number| Arc::new(record(*number))).collect();
        known.read_all(began, &records);
        known
    }

    fn uuid(number: u32) -> ConsumerUuid {
        record(number).request.uuid()
    }

    /// Where a reading of this guest begins; none where it is known.
    fn reading(known: &Known, number: u32) -> Option<Moment> {
        match known.guest(uuid(number)) {
            Reading::Known(_) => None,
            Reading::Due(began) => Some(began),
        }
    }

    fn is_read(known: &Known, number: u32, began: Moment) {
        known.read(uuid(number), began, Some(&Arc::new(record(number))));
    }

    #[test]
    fn what_was_read_is_known_and_so_is_that_there_is_no_other() {
        let known = known(&[1, 2]);
        assert!(
            matches!(known.guest(uuid(1)), Reading::Known(Some(it)) if it.request.uuid() == uuid(1))
        );
        assert!(matches!(known.guest(uuid(3)), Reading::Known(None)));
        assert!(
            matches!(known.all(), Reading::Known((sure, doubted)) if sure.len() == 2 && doubted.is_empty())
        );
    }

    #[test]
    fn a_guest_is_in_doubt_from_before_a_write_until_a_reading_that_began_after_it() {
        let known = known(&[1, 2]);
        let before = reading(&known, 1);
        assert_eq!(before, None);
        let write = known.doubt(uuid(1));
        let meanwhile = reading(&known, 1).unwrap();
        is_read(&known, 1, meanwhile);
        assert!(reading(&known, 1).is_some(), "it is being written");
        assert!(
            matches!(known.all(), Reading::Known((sure, doubted)) if sure.len() == 1 && doubted == [uuid(1)])
        );
        write.through();
        is_read(&known, 1, meanwhile);
        let after = reading(&known, 1).expect("that reading may be older");
        is_read(&known, 1, after);
        assert_eq!(reading(&known, 1), None);
        assert_eq!(reading(&known, 2), None, "nobody wrote this one");
    }

    #[test]
    fn a_reading_of_one_that_comes_late_takes_nothing_newer_away() {
        let known = known(&[1]);
        let write = known.doubt(uuid(1));
        let late = reading(&known, 1).unwrap();
        write.through();
        let quick = reading(&known, 1).unwrap();
        known.read(uuid(1), quick, None);
        is_read(&known, 1, late);
        assert!(matches!(known.guest(uuid(1)), Reading::Known(None)));
    }

    #[test]
    fn a_write_that_was_given_up_may_be_done_until_a_later_one_is_through() {
        let known = known(&[1]);
        drop(known.doubt(uuid(1)));
        let after = reading(&known, 1).unwrap();
        is_read(&known, 1, after);
        assert!(reading(&known, 1).is_some());
        let beside = known.doubt(uuid(1));
        drop(known.doubt(uuid(1)));
        beside.through();
        let after = reading(&known, 1).unwrap();
        is_read(&known, 1, after);
        assert!(
            reading(&known, 1).is_some(),
            "it began before that was given up"
        );
        known.doubt(uuid(1)).through();
        let after = reading(&known, 1).unwrap();
        is_read(&known, 1, after);
        assert_eq!(reading(&known, 1), None);
    }

    #[test]
    fn a_reading_of_all_that_comes_late_takes_nothing_newer_away() {
        let known = Known::default();
        let Reading::Due(late) = known.all() else {
            panic!("nothing was read yet")
        };
        let write = known.doubt(uuid(1));
        write.through();
        let Reading::Due(quick) = known.all() else {
            panic!("nothing was read yet")
        };
        known.read_all(quick, &[Arc::new(record(1))]);
        assert_eq!(reading(&known, 1), None);
        known.read_all(late, &[]);
        assert!(matches!(known.guest(uuid(1)), Reading::Known(Some(_))));
    }

    #[test]
    fn one_that_is_gone_is_not_known_any_more() {
        let known = known(&[1]);
        known.doubt(uuid(1)).through();
        let began = reading(&known, 1).unwrap();
        known.read(uuid(1), began, None);
        assert!(matches!(known.guest(uuid(1)), Reading::Known(None)));
    }
}
