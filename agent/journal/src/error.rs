//! Why the journal could not be read or written.

use berth_model::ConsumerUuid;
use berth_store::{JournalFault, JournalFileError, OpenError, SqlError};

/// A journal that could not be read or written. What was not answered may be there wholly, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be opened, or another agent has it.
    #[error("the guests' journal {path}: {source}")]
    Open { path: String, source: OpenError },
    /// The file is no journal, or damaged.
    #[error(
        "{path} is damaged or no journal of guests ({reason}); no guest is touched while nobody knows which devices are \
         whose: restore it from a backup, or move it away and start with the guests as the hypervisor has them"
    )]
    Damaged { path: String, reason: String },
    /// A later release wrote it.
    #[error(
        "{path} has version {found} of the guests' journal, and this berth knows up to {known}: install the release that \
         wrote it, or a later one"
    )]
    Newer {
        path: String,
        found: i64,
        /// The latest known here.
        known: i64,
    },
    /// A guest's rows say what no release writes.
    #[error(
        "{path} holds of guest {guest} what cannot be read ({reason}); restore the file from a backup, or remove that \
         guest from hypervisor and journal by hand"
    )]
    Unreadable {
        path: String,
        guest: String,
        reason: String,
    },
    /// There is no such guest.
    #[error("the journal {path} does not know guest {guest}")]
    Unknown { path: String, guest: ConsumerUuid },
    /// The database said no.
    #[error("the guests' journal {path} cannot be used: {source}; {}", source.hint())]
    Sql { path: String, source: SqlError },
}

/// The kinds of failures of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalFailure {
    /// Another process has the file.
    HeldByAnother,
    /// Another release wrote the file.
    OtherRelease,
    /// The file cannot be used.
    File,
    Bug,
}

impl JournalError {
    /// What kind of failure it is, for the exit code of a process that cannot start because of it.
    #[must_use]
    pub fn failure(&self) -> JournalFailure {
        match self {
            Self::Open {
                source: OpenError::Held { .. },
                ..
            } => JournalFailure::HeldByAnother,
            Self::Newer { .. } => JournalFailure::OtherRelease,
            Self::Unknown { .. } => JournalFailure::Bug,
            Self::Open { .. }
            | Self::Damaged { .. }
            | Self::Unreadable { .. }
            | Self::Sql { .. } => JournalFailure::File,
        }
    }
}

impl From<JournalFileError> for JournalError {
    fn from(error: JournalFileError) -> Self {
        match error {
            JournalFileError::Open { path, source } => Self::Open { path, source },
            JournalFileError::Damaged { path, reason } => Self::Damaged { path, reason },
            JournalFileError::Sql { path, source } => Self::Sql { path, source },
        }
    }
}

impl JournalFault for JournalError {
    fn affects_whole_journal(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Unreadable { .. })
    }
}
