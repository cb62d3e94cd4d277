//! [`ServerError`]: why a server could not be created, read or changed.

use berth_conductor::ConductorError;
use berth_quota::{QuotaExceeded, QuotaResource};
use berth_store::{Disposition, Retryable, SqlError};
use uuid::Uuid;

use super::MOST_TAGS;
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
    #[error("Maximum number of metadata items exceeds {most}")]
    ManyMetadata { most: i64 },
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error("Quota exceeded, too many servers in group")]
    ManyGroupMembers,
    /// A resource class is limited, and what the servers would claim of it is not known.
    #[error(
        "The quota of the project cannot be checked now: the accelerator service does not describe the device profile."
    )]
    UnknownResources,
    /// Other servers of the project were stored since its usage was read.
    #[error("Other requests of the project were accepted in the meantime; try again.")]
    QuotaRaced,
    /// A new limit is less than what is used.
    #[error(
        "Quota limit {limit} for {resource} must be greater than or equal to already used and reserved {in_use}."
    )]
    SmallQuota {
        resource: QuotaResource,
        limit: i64,
        in_use: u64,
    },
    #[error("Quota limit {limit} for {resource} must be less than or equal to {most}.")]
    LargeQuota {
        resource: QuotaResource,
        limit: i64,
        most: i64,
    },
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
