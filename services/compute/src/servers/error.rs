//! Why a server could not be made, read or changed.

use berth_conductor::ConductorError;
use berth_store::{Disposition, Retryable, SqlError};
use uuid::Uuid;

use super::{MOST_METADATA, MOST_TAGS};
use crate::server_state::TaskState;
use crate::store::TableError;

/// Why a server could not be made, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is no such server, or not for this caller.
    #[error("Instance {uuid} could not be found.")]
    NotFound {
        uuid: Uuid,
    },
    /// What the conductor is to be asked for cannot be asked for.
    #[error("{0}")]
    Request(String),
    /// Of several servers one would have a name that is too long.
    #[error(
        "Invalid input for field/attribute name. Each of several servers has its number behind the name, and '{name}' has more \
         than 255 characters"
    )]
    LongName {
        name: String,
    },
    /// It has no such key.
    #[error("Metadata item was not found")]
    NoMetadata,
    /// It would have too many keys.
    #[error("Quota exceeded for metadata_items: a server has at most {MOST_METADATA}")]
    ManyMetadata,
    /// It has no such tag.
    #[error("Instance {uuid} has no tag '{tag}'")]
    NoTag {
        uuid: Uuid,
        tag: String,
    },
    /// It would have too many tags.
    #[error(
        "The number of tags exceeded the per-server limit {MOST_TAGS}. The number of tags in 'tags' is {count}"
    )]
    ManyTags {
        /// So many it would have.
        count: usize,
    },
    #[error("Instance {uuid} is locked")]
    Locked {
        uuid: Uuid,
    },
    /// Something else is being done with it.
    #[error("Cannot '{action}' instance {uuid} while it is in task_state {task_state}")]
    Busy {
        /// What was asked for.
        action: &'static str,
        uuid: Uuid,
        /// What is being done.
        task_state: TaskState,
    },
    /// The conductor cannot say how far it is.
    #[error(transparent)]
    Conductor(#[from] ConductorError),
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for ServerError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl ServerError {
    /// What a loop does about it.
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
