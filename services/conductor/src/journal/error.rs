//! Errors of the conductor's journal.

use berth_model::ConsumerUuid;
use berth_store::{JournalFault, JournalFileError, OpenError, SqlError};

/// Error of reading or writing the journal. An interrupted change may be there completely, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum BootJournalError {
    /// The file cannot be opened, or another conductor has it open.
    #[error("the conductor's journal {path}: {source}")]
    Open { path: String, source: OpenError },
    /// The file is damaged, or not a journal.
    #[error(
        "{path} is damaged or not a conductor's journal ({reason}); restore it from a backup, or move it away: running guests \
         are not affected, and berth guest list shows those that the conductor no longer knows"
    )]
    Damaged { path: String, reason: String },
    /// A later release wrote the file.
    #[error(
        "{path} has version {found} of the conductor's journal, but this release supports only up to {known}: install the \
         release that wrote it, or a later one"
    )]
    Newer {
        path: String,
        found: i64,
        /// The latest version that this release supports.
        known: i64,
    },
    #[error(transparent)]
    Unreadable(UnreadableBootRecord),
    #[error("guest {guest} is not in the journal {path}")]
    Unknown { path: String, guest: ConsumerUuid },
    #[error("the conductor's journal {path} is unusable: {source}; {}", source.hint())]
    Sql { path: String, source: SqlError },
}

/// A guest whose rows do not form a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} holds of guest {guest} what cannot be read ({reason}); restore the file from a backup"
)]
pub struct UnreadableBootRecord {
    pub path: String,
    /// Content of the guest's UUID column.
    pub guest: String,
    pub reason: String,
}

impl From<JournalFileError> for BootJournalError {
    fn from(error: JournalFileError) -> Self {
        match error {
            JournalFileError::Open { path, source } => Self::Open { path, source },
            JournalFileError::Damaged { path, reason } => Self::Damaged { path, reason },
            JournalFileError::Sql { path, source } => Self::Sql { path, source },
        }
    }
}

impl JournalFault for BootJournalError {
    fn affects_whole_journal(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Unreadable(_))
    }
}
