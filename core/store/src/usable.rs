//! Whether a journal can be used, as its last uses say. A full disk refuses what is written, and lets everything be read: that
//! a journal could be read again says nothing of the next write.
//!
//! Callers: the agent's guests and the conductor's, which tell their health by it.

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
