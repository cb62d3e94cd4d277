//! The health of a journal, from the results of its last read and its last write. They are kept apart, because a full disk refuses writes
//! and allows reads.
//!
//! Callers: the instances of the agent and the conductor, which report their health from it.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The results of the last read and the last write of a journal. Each change of its health is logged once.
#[derive(Debug)]
pub struct JournalHealth {
    journal: &'static str,
    failures: Mutex<Failures>,
    told: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Failures {
    of_reads: Option<String>,
    of_writes: Option<String>,
}

/// An error of a journal.
pub trait JournalFault: fmt::Display {
    /// Whether the error affects the whole journal, and not only the rows of one guest.
    fn affects_whole_journal(&self) -> bool;
}

impl JournalHealth {
    /// The health of a journal that was not used yet.
    #[must_use]
    pub fn new(journal: &'static str) -> Self {
        Self {
            journal,
            failures: Mutex::default(),
            told: watch::Sender::default(),
        }
    }

    /// Records the result of reading the whole journal: `None`, or why it failed.
    pub fn record_read_result(&self, failure: Option<String>) {
        self.update(|failures| failures.of_reads = failure);
    }

    /// Records the result of a write: `None`, or why it failed.
    pub fn record_write_result(&self, failure: Option<String>) {
        self.update(|failures| failures.of_writes = failure);
    }

    /// Records the result of a write and returns it.
    pub fn record_write<T, E: JournalFault>(&self, written: Result<T, E>) -> Result<T, E> {
        match &written {
            Ok(_) => self.record_write_result(None),
            Err(fault) => self.record_write_error(fault),
        }
        written
    }

    /// Records a failed write, if the error affects the whole journal.
    pub fn record_write_error(&self, fault: &impl JournalFault) {
        if fault.affects_whole_journal() {
            self.record_write_result(Some(fault.to_string()));
        }
    }

    /// Whether the last write failed.
    #[must_use]
    pub fn refuses_writes(&self) -> bool {
        let failures = self.failures.lock();
        let failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.of_writes.is_some()
    }

    /// The reason why the journal is unusable, or `None`, with a notification of each change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    fn update(&self, change: impl FnOnce(&mut Failures)) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut failures);
        let now = failures.of_writes.clone().or(failures.of_reads.clone());
        let news = self.told.send_if_modified(|told| {
            let news = *told != now;
            told.clone_from(&now);
            news
        });
        match (news, now) {
            (true, Some(reason)) => {
                tracing::warn!(journal = self.journal, %reason, "the journal is unusable: its last read or write failed");
            }
            (true, None) => tracing::info!(journal = self.journal, "the journal is usable again"),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fault {
        of_the_file: bool,
    }

    impl fmt::Display for Fault {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("it was not written")
        }
    }

    impl JournalFault for Fault {
        fn affects_whole_journal(&self) -> bool {
            self.of_the_file
        }
    }

    #[test]
    fn what_is_wrong_with_one_guests_rows_is_no_word_about_the_journal() {
        let usable = JournalHealth::new("guests.db");
        for of_the_file in [false, true] {
            assert!(
                usable
                    .record_write::<(), _>(Err(Fault { of_the_file }))
                    .is_err()
            );
            assert_eq!(usable.refuses_writes(), of_the_file);
        }
        assert!(usable.record_write(Ok::<_, Fault>(())).is_ok());
        assert!(!usable.refuses_writes());
    }

    #[test]
    fn a_read_that_succeeds_does_not_hide_that_nothing_can_be_written() {
        let usable = JournalHealth::new("guests.db");
        let mut told = usable.subscribe();
        usable.record_write_result(Some("the disk is full".to_owned()));
        assert!(told.has_changed().unwrap());
        let _ = told.borrow_and_update();
        usable.record_read_result(None);
        usable.record_write_result(Some("the disk is full".to_owned()));
        assert!(!told.has_changed().unwrap(), "the change is reported once");
        assert_eq!(told.borrow().as_deref(), Some("the disk is full"));
        assert!(usable.refuses_writes());
        usable.record_read_result(Some("damaged".to_owned()));
        usable.record_write_result(None);
        assert!(!usable.refuses_writes());
        assert_eq!(told.borrow().as_deref(), Some("damaged"));
        usable.record_read_result(None);
        assert_eq!(*told.borrow(), None);
    }
}
