//! [`RecordCache`]: the records of guests as they were last read. They are read far more often than they change.
//!
//! One process owns the file, so only this process changes rows. A record becomes stale before its rows are written
//! ([`RecordCache::begin_write`]), and is valid again when it was read after the write ended. A write that was dropped or failed
//! may still be committed later, so its record stays stale until a later write of the same guest completes. Stale records are
//! read from the file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_model::ConsumerUuid;
use berth_workflow::JournalRecord as _;

use crate::record::GuestRecord;

/// Logical time of the cache: it advances when a write begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct CacheTime(u64);

/// The cached records of a file. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordCache(Arc<Mutex<CacheState>>);

#[derive(Debug, Default)]
struct CacheState {
    now: CacheTime,
    /// `None` before all guests were read.
    guests: Option<BTreeMap<ConsumerUuid, Arc<GuestRecord>>>,
    stale: BTreeMap<ConsumerUuid, StaleReason>,
}

/// Why a cached record may be outdated.
#[derive(Debug, Default)]
struct StaleReason {
    /// Number of unfinished writes.
    writes: usize,
    /// When the last write was dropped or failed.
    failed: Option<CacheTime>,
    /// Reads that began earlier may be outdated.
    since: CacheTime,
}

/// Result of a lookup.
pub(super) enum CacheLookup<T> {
    Hit(T),
    /// Read it from the file, and insert it with this time.
    Miss(CacheTime),
}

/// An unfinished write of a guest's rows. If it is dropped before [`Self::complete`], the write failed.
#[must_use]
pub(super) struct CachedWrite {
    cache: RecordCache,
    guest: ConsumerUuid,
    began: CacheTime,
    is_complete: bool,
}

impl RecordCache {
    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Call this before the rows of the guest are written.
    pub(super) fn begin_write(&self, guest: ConsumerUuid) -> CachedWrite {
        let mut state = self.state();
        let began = state.advance();
        let stale = state.stale.entry(guest).or_default();
        stale.writes += 1;
        stale.since = began;
        drop(state);
        CachedWrite {
            cache: self.clone(),
            guest,
            began,
            is_complete: false,
        }
    }

    /// A guest; `None` if the file does not have it.
    pub(super) fn guest(&self, guest: ConsumerUuid) -> CacheLookup<Option<Arc<GuestRecord>>> {
        let state = self.state();
        match &state.guests {
            Some(guests) if !state.stale.contains_key(&guest) => {
                CacheLookup::Hit(guests.get(&guest).cloned())
            }
            _ => CacheLookup::Miss(state.now),
        }
    }

    /// Inserts the result of a read that began at this time.
    pub(super) fn insert(
        &self,
        guest: ConsumerUuid,
        began: CacheTime,
        record: Option<&Arc<GuestRecord>>,
    ) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(guests) = &mut state.guests else {
            return;
        };
        // If the record is not stale, another read was faster, and this one may be older.
        let stale = state.stale.get(&guest);
        if stale.is_none_or(|stale| !stale.is_resolved_by(began)) {
            return;
        }
        state.stale.remove(&guest);
        match record {
            Some(record) => guests.insert(guest, Arc::clone(record)),
            None => guests.remove(&guest),
        };
    }

    /// The valid records of all guests, and the guests whose records are stale. A miss before the first [`Self::insert_all`].
    pub(super) fn all(&self) -> CacheLookup<(Vec<Arc<GuestRecord>>, Vec<ConsumerUuid>)> {
        let state = self.state();
        let Some(guests) = &state.guests else {
            return CacheLookup::Miss(state.now);
        };
        let stale = &state.stale;
        let valid = guests
            .iter()
            .filter(|(guest, _)| !stale.contains_key(guest));
        let valid = valid.map(|(_, record)| Arc::clone(record)).collect();
        CacheLookup::Hit((valid, stale.keys().copied().collect()))
    }

    /// Inserts the result of a read of all guests that began at this time.
    pub(super) fn insert_all(&self, began: CacheTime, records: &[Arc<GuestRecord>]) {
        let mut state = self.state();
        if state.guests.is_some() {
            // Another read was faster, and single records that were read since then may be newer.
            return;
        }
        let all = records.iter();
        let all = all.map(|record| (record.uuid(), Arc::clone(record)));
        state.guests = Some(all.collect());
        state.stale.retain(|_, stale| !stale.is_resolved_by(began));
    }
}

impl CacheState {
    fn advance(&mut self) -> CacheTime {
        self.now = CacheTime(self.now.0 + 1);
        self.now
    }
}

impl StaleReason {
    /// Whether a read that began at this time saw all writes.
    fn is_resolved_by(&self, began: CacheTime) -> bool {
        self.writes == 0 && self.failed.is_none() && self.since <= began
    }
}

impl CachedWrite {
    /// The write is committed: later reads see it.
    pub(super) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for CachedWrite {
    fn drop(&mut self) {
        let mut state = self.cache.state();
        let now = state.advance();
        let Some(stale) = state.stale.get_mut(&self.guest) else {
            return;
        };
        stale.writes = stale.writes.saturating_sub(1);
        stale.since = now;
        stale.failed = match self.is_complete {
            // One connection writes, one transaction after the other: writes that failed before this one began are settled.
            true => stale.failed.filter(|failed| *failed > self.began),
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
            goal: Goal::Spawn,
            power: DesiredPower::Running,
            steps: BTreeMap::new(),
            devices: None,
            overrides: InstanceOverrides::default(),
        }
    }

    fn cache(of: &[u32]) -> RecordCache {
        let cache = RecordCache::default();
        let CacheLookup::Miss(began) = cache.all() else {
            panic!("nothing was read yet")
        };
        let records: Vec<_> = of.iter().map(|number| Arc::new(record(*number))).collect();
        cache.insert_all(began, &records);
        cache
    }

    fn uuid(number: u32) -> ConsumerUuid {
        record(number).request.uuid()
    }

    /// The time at which a read of this guest begins; `None` if the cache has it.
    fn reading(cache: &RecordCache, number: u32) -> Option<CacheTime> {
        match cache.guest(uuid(number)) {
            CacheLookup::Hit(_) => None,
            CacheLookup::Miss(began) => Some(began),
        }
    }

    fn is_read(cache: &RecordCache, number: u32, began: CacheTime) {
        cache.insert(uuid(number), began, Some(&Arc::new(record(number))));
    }

    #[test]
    fn what_was_read_is_known_and_so_is_that_there_is_no_other() {
        let cache = cache(&[1, 2]);
        assert!(
            matches!(cache.guest(uuid(1)), CacheLookup::Hit(Some(it)) if it.request.uuid() == uuid(1))
        );
        assert!(matches!(cache.guest(uuid(3)), CacheLookup::Hit(None)));
        assert!(
            matches!(cache.all(), CacheLookup::Hit((sure, doubted)) if sure.len() == 2 && doubted.is_empty())
        );
    }

    #[test]
    fn a_guest_is_in_doubt_from_before_a_write_until_a_reading_that_began_after_it() {
        let cache = cache(&[1, 2]);
        let before = reading(&cache, 1);
        assert_eq!(before, None);
        let write = cache.begin_write(uuid(1));
        let meanwhile = reading(&cache, 1).unwrap();
        is_read(&cache, 1, meanwhile);
        assert!(reading(&cache, 1).is_some(), "it is being written");
        assert!(
            matches!(cache.all(), CacheLookup::Hit((sure, doubted)) if sure.len() == 1 && doubted == [uuid(1)])
        );
        write.complete();
        is_read(&cache, 1, meanwhile);
        let after = reading(&cache, 1).expect("that read may be older");
        is_read(&cache, 1, after);
        assert_eq!(reading(&cache, 1), None);
        assert_eq!(reading(&cache, 2), None, "this one was not written");
    }

    #[test]
    fn a_reading_of_one_that_comes_late_takes_nothing_newer_away() {
        let cache = cache(&[1]);
        let write = cache.begin_write(uuid(1));
        let late = reading(&cache, 1).unwrap();
        write.complete();
        let quick = reading(&cache, 1).unwrap();
        cache.insert(uuid(1), quick, None);
        is_read(&cache, 1, late);
        assert!(matches!(cache.guest(uuid(1)), CacheLookup::Hit(None)));
    }

    #[test]
    fn a_write_that_was_given_up_may_be_done_until_a_later_one_is_through() {
        let cache = cache(&[1]);
        drop(cache.begin_write(uuid(1)));
        let after = reading(&cache, 1).unwrap();
        is_read(&cache, 1, after);
        assert!(reading(&cache, 1).is_some());
        let concurrent = cache.begin_write(uuid(1));
        drop(cache.begin_write(uuid(1)));
        concurrent.complete();
        let after = reading(&cache, 1).unwrap();
        is_read(&cache, 1, after);
        assert!(
            reading(&cache, 1).is_some(),
            "it began before the other one failed"
        );
        cache.begin_write(uuid(1)).complete();
        let after = reading(&cache, 1).unwrap();
        is_read(&cache, 1, after);
        assert_eq!(reading(&cache, 1), None);
    }

    #[test]
    fn a_reading_of_all_that_comes_late_takes_nothing_newer_away() {
        let cache = RecordCache::default();
        let CacheLookup::Miss(late) = cache.all() else {
            panic!("nothing was read yet")
        };
        let write = cache.begin_write(uuid(1));
        write.complete();
        let CacheLookup::Miss(quick) = cache.all() else {
            panic!("nothing was read yet")
        };
        cache.insert_all(quick, &[Arc::new(record(1))]);
        assert_eq!(reading(&cache, 1), None);
        cache.insert_all(late, &[]);
        assert!(matches!(cache.guest(uuid(1)), CacheLookup::Hit(Some(_))));
    }

    #[test]
    fn one_that_is_gone_is_not_known_any_more() {
        let cache = cache(&[1]);
        cache.begin_write(uuid(1)).complete();
        let began = reading(&cache, 1).unwrap();
        cache.insert(uuid(1), began, None);
        assert!(matches!(cache.guest(uuid(1)), CacheLookup::Hit(None)));
    }
}
