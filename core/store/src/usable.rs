//! Whether a journal can be used, as its last uses say. A full disk refuses what is written, and lets everything be read: that
//! a journal could be read again says nothing of the next write.
//!
//! Callers: the agent's guests and the conductor's, which tell their health by it.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// How one journal's last uses ended. News are told in the log, once.
#[derive(Debug)]
pub struct Usable {
    journal: &'static str,
    failures: Mutex<Failures>,
    told: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Failures {
    of_reads: Option<String>,
    of_writes: Option<String>,
}

/// Why a journal was not written.
pub trait JournalFault: fmt::Display {
    /// Whether the whole journal is meant, and not what is in it of one guest: that is told by whoever reads all of it.
    fn is_of_the_file(&self) -> bool;
}

impl Usable {
    /// Of a journal of this name, which nobody has used yet.
    #[must_use]
    pub fn new(journal: &'static str) -> Self {
        Self {
            journal,
            failures: Mutex::default(),
            told: watch::Sender::default(),
        }
    }

    /// All of it was read, or could not be for this reason.
    pub fn read(&self, failure: Option<String>) {
        self.note(|failures| failures.of_reads = failure);
    }

    /// Something was written, or could not be for this reason.
    pub fn written(&self, failure: Option<String>) {
        self.note(|failures| failures.of_writes = failure);
    }

    /// What came of a write, noted.
    pub fn wrote<T, E: JournalFault>(&self, written: Result<T, E>) -> Result<T, E> {
        match &written {
            Ok(_) => self.written(None),
            Err(fault) => self.not_written(fault),
        }
        written
    }

    /// The journal failed where it should have been written.
    pub fn not_written(&self, fault: &impl JournalFault) {
        if fault.is_of_the_file() {
            self.written(Some(fault.to_string()));
        }
    }

    /// Whether the last write failed.
    #[must_use]
    pub fn refuses_writes(&self) -> bool {
        let failures = self.failures.lock();
        let failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.of_writes.is_some()
    }

    /// Why it cannot be used, with a word whenever that changes; none where it can.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.told.subscribe()
    }

    fn note(&self, change: impl FnOnce(&mut Failures)) {
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
                tracing::warn!(journal = self.journal, %reason, "the journal cannot be used");
            }
            (true, None) => tracing::info!(journal = self.journal, "the journal can be used again"),
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
        fn is_of_the_file(&self) -> bool {
            self.of_the_file
        }
    }

    #[test]
    fn what_is_wrong_with_one_guests_rows_is_no_word_about_the_journal() {
        let usable = Usable::new("guests.db");
        for of_the_file in [false, true] {
            assert!(usable.wrote::<(), _>(Err(Fault { of_the_file })).is_err());
            assert_eq!(usable.refuses_writes(), of_the_file);
        }
        assert!(usable.wrote(Ok::<_, Fault>(())).is_ok());
        assert!(!usable.refuses_writes());
    }

    #[test]
    fn a_read_that_succeeds_does_not_hide_that_nothing_can_be_written() {
        let usable = Usable::new("guests.db");
        let mut told = usable.subscribe();
        usable.written(Some("the disk is full".to_owned()));
        assert!(told.has_changed().unwrap());
        let _ = told.borrow_and_update();
        usable.read(None);
        usable.written(Some("the disk is full".to_owned()));
        assert!(!told.has_changed().unwrap(), "it is told once");
        assert_eq!(told.borrow().as_deref(), Some("the disk is full"));
        assert!(usable.refuses_writes());
        usable.read(Some("damaged".to_owned()));
        usable.written(None);
        assert!(!usable.refuses_writes());
        assert_eq!(told.borrow().as_deref(), Some("damaged"));
        usable.read(None);
        assert_eq!(*told.borrow(), None);
    }
}
