//! [`JournalHealth`]: whether the last read and the last write of a journal failed. They are separate, because a full disk
//! refuses writes and allows reads.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::JournalError;

/// The results of the last read and the last write of a journal. Each change of its health is logged once.
#[derive(Debug)]
pub struct JournalHealth {
    journal: &'static str,
    failures: Mutex<Failures>,
    reported: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Failures {
    of_reads: Option<String>,
    of_writes: Option<String>,
}

impl JournalHealth {
    /// The health of a journal that was not used yet.
    #[must_use]
    pub fn new(journal: &'static str) -> Self {
        Self {
            journal,
            failures: Mutex::default(),
            reported: watch::Sender::default(),
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
    pub fn record_write<T>(&self, written: Result<T, JournalError>) -> Result<T, JournalError> {
        match &written {
            Ok(_) => self.record_write_result(None),
            Err(error) => self.record_write_error(error),
        }
        written
    }

    /// Records a failed write, if the error affects the whole journal.
    pub fn record_write_error(&self, error: &JournalError) {
        if error.affects_whole_journal() {
            self.record_write_result(Some(error.to_string()));
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
        self.reported.subscribe()
    }

    fn update(&self, change: impl FnOnce(&mut Failures)) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut failures);
        let now = failures.of_writes.clone().or(failures.of_reads.clone());
        let news = self.reported.send_if_modified(|reported| {
            let news = *reported != now;
            reported.clone_from(&now);
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

    #[test]
    fn what_is_wrong_with_one_guests_rows_is_no_word_about_the_journal() {
        let usable = JournalHealth::new("guests.db");
        let path = String::new;
        let unreadable = JournalError::Unreadable(crate::UnreadableRecord {
            path: path(),
            guest: String::new(),
            reason: String::new(),
        });
        let damaged = JournalError::Damaged {
            path: path(),
            reason: String::new(),
        };
        for (error, of_the_file) in [(unreadable, false), (damaged, true)] {
            assert!(usable.record_write::<()>(Err(error)).is_err());
            assert_eq!(usable.refuses_writes(), of_the_file);
        }
        assert!(usable.record_write(Ok(())).is_ok());
        assert!(!usable.refuses_writes());
    }

    #[test]
    fn a_read_that_succeeds_does_not_hide_that_nothing_can_be_written() {
        let usable = JournalHealth::new("guests.db");
        let mut reported = usable.subscribe();
        usable.record_write_result(Some("the disk is full".to_owned()));
        assert!(reported.has_changed().unwrap());
        let _ = reported.borrow_and_update();
        usable.record_read_result(None);
        usable.record_write_result(Some("the disk is full".to_owned()));
        assert!(
            !reported.has_changed().unwrap(),
            "the change is reported once"
        );
        assert_eq!(reported.borrow().as_deref(), Some("the disk is full"));
        assert!(usable.refuses_writes());
        usable.record_read_result(Some("damaged".to_owned()));
        usable.record_write_result(None);
        assert!(!usable.refuses_writes());
        assert_eq!(reported.borrow().as_deref(), Some("damaged"));
        usable.record_read_result(None);
        assert_eq!(*reported.borrow(), None);
    }
}
