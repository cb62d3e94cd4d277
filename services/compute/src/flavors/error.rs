//! [`ComputeFlavorError`]: why a flavor could not be created, read or changed.

use berth_store::{Disposition, Retryable, SqlError};

use crate::store::ComputeTableError;

/// Why a flavor could not be created, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ComputeFlavorError {
    /// The flavor does not exist, or the caller may not see it.
    #[error("Flavor {flavorid} could not be found.")]
    NotFound {
        /// The id in the API.
        flavorid: String,
    },
    #[error("Flavor with name {name} already exists.")]
    NameExists { name: String },
    #[error("Flavor with ID {flavorid} already exists.")]
    IdExists { flavorid: String },
    #[error("Flavor {flavorid} has no extra specs with key {key}.")]
    NoExtraSpec { flavorid: String, key: String },
    /// A guest's flavor has at most 256 extra specs (`FlavorBody`).
    #[error("Flavor {flavorid} would have more than {most} extra specs.")]
    ManyExtraSpecs { flavorid: String, most: usize },
    #[error(
        "Flavor access already exists for flavor {flavorid} and project {project_id} combination."
    )]
    AccessExists {
        flavorid: String,
        project_id: String,
    },
    #[error("Flavor access not found for flavor {flavorid} / project {project_id} combination.")]
    AccessNotFound {
        flavorid: String,
        project_id: String,
    },
    /// Public flavors have no access list.
    #[error("Can not add access to a public flavor.")]
    Public,
    #[error(transparent)]
    Table(#[from] ComputeTableError),
}

impl From<SqlError> for ComputeFlavorError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl ComputeFlavorError {
    /// Whether a retry can help.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Retryable for ComputeFlavorError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}
