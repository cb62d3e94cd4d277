//! [`ServerError`]: why a server could not be created, read or changed.

use berth_conductor::ConductorError;
use berth_store::{Disposition, Retryable, SqlError};
use uuid::Uuid;

use super::{MOST_METADATA, MOST_TAGS};
use crate::server_state::TaskState;
use crate::store::ComputeTableError;

/// Why a server could not be created, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server does not exist, or the caller may not see it.
    #[error("Instance {uuid} could not be found.")]
    NotFound { uuid: Uuid },
    /// The request to the conductor is invalid.
    #[error("{0}")]
    Request(String),
    #[error(
        "Invalid input for field/attribute name. Each of several servers gets its number appended to the name, and '{name}' has more \
         than 255 characters"
    )]
    LongName { name: String },
    #[error("Metadata item was not found")]
    NoMetadata,
    #[error("Quota exceeded for metadata_items: a server has at most {MOST_METADATA}")]
    ManyMetadata,
    #[error("Instance {uuid} has no tag '{tag}'")]
    NoTag { uuid: Uuid, tag: String },
    #[error(
        "The number of tags exceeded the per-server limit {MOST_TAGS}. The number of tags in 'tags' is {count}"
    )]
    ManyTags {
        /// The number that was requested.
        count: usize,
    },
    #[error("Instance {uuid} is locked")]
    Locked { uuid: Uuid },
    /// Another action is pending.
    #[error("Cannot '{action}' instance {uuid} while it is in task_state {task_state}")]
    Busy {
        action: &'static str,
        uuid: Uuid,
        task_state: TaskState,
    },
    /// The conductor's journal or scheduler failed.
    #[error(transparent)]
    Conductor(#[from] ConductorError),
    #[error(transparent)]
    Table(#[from] ComputeTableError),
}

impl From<SqlError> for ServerError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl ServerError {
    /// Whether a retry can help.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Retryable for ServerError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}
