//! Errors of a journal.

use berth_model::ConsumerUuid;
use berth_store::{OpenError, SqlError};

/// A journal could not be opened, read or written. A write that failed may be committed as a whole, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened, or another process owns it.
    #[error("the journal {path}: {source}")]
    Open { path: String, source: OpenError },
    /// The file is damaged, or is not this journal.
    #[error(
        "{path} is damaged or is not a journal of this service ({reason}); restore it from a backup, or move it away to start \
         with an empty journal: running guests are not affected, but Berth no longer manages them"
    )]
    Damaged { path: String, reason: String },
    /// A later release wrote the file.
    #[error(
        "{path} has version {found} of the journal, but this release supports only up to {known}: install the release that \
         wrote it, or a later one"
    )]
    Newer {
        path: String,
        found: i64,
        /// The latest version that this release supports.
        known: i64,
    },
    #[error(transparent)]
    Unreadable(UnreadableRecord),
    #[error("guest {guest} is not in the journal {path}")]
    Unknown { path: String, guest: ConsumerUuid },
    #[error("the journal {path} is unusable: {source}; {}", source.hint())]
    Sql { path: String, source: SqlError },
}

/// A guest whose rows do not form a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} has an unreadable record of guest {guest} ({reason}); restore the file from a backup"
)]
pub struct UnreadableRecord {
    pub path: String,
    /// Content of the guest's UUID column.
    pub guest: String,
    pub reason: String,
}

impl JournalError {
    /// Whether the error affects the whole journal, and not only the rows of one guest.
    #[must_use]
    pub fn affects_whole_journal(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Unreadable(_))
    }
}
