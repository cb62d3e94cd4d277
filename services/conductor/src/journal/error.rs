//! Why the journal could not be read or written.

use berth_model::ConsumerUuid;
use berth_store::{JournalFault, JournalFileError, OpenError, SqlError};

/// A journal that could not be read or written. What was not answered may be there wholly, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be opened, or another conductor has it.
    #[error("the conductor's journal {path}: {source}")]
    Open {
        path: String,
        source: OpenError,
    },
    /// The file is no journal, or damaged.
    #[error(
        "{path} is damaged or no journal of a conductor ({reason}); restore it from a backup, or move it away: guests go on, \
         and berth guest list says which nobody knows any more"
    )]
    Damaged {
        path: String,
        reason: String,
    },
    /// A later release wrote it.
    #[error(
        "{path} has version {found} of the conductor's journal, and this berth knows up to {known}: install the release that \
         wrote it, or a later one"
    )]
    Newer {
        path: String,
        found: i64,
        /// The latest known here.
        known: i64,
    },
    /// A guest's rows say what no release writes.
    #[error(transparent)]
    Unreadable(UnreadableGuest),
    /// There is no such guest.
    #[error("the journal {path} does not know guest {guest}")]
    Unknown {
        path: String,
        guest: ConsumerUuid,
    },
    /// The database said no.
    #[error("the conductor's journal {path} cannot be used: {source}; {}", source.mend())]
    Sql {
        path: String,
        source: SqlError,
    },
}

/// A guest whose rows say what no release writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} holds of guest {guest} what cannot be read ({reason}); restore the file from a backup"
)]
pub struct UnreadableGuest {
    pub path: String,
    /// The guest: what should be its UUID.
    pub guest: String,
    pub reason: String,
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
    fn is_of_the_file(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Unreadable(_))
    }
}
