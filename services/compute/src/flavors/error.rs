//! Why a flavor could not be made, read or changed.

use berth_store::{Disposition, Retryable, SqlError};

use crate::store::TableError;

/// Why a flavor could not be made, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FlavorError {
    /// There is no such flavor, or not for this caller.
    #[error("Flavor {flavorid} could not be found.")]
    NotFound {
        /// Its id in the API.
        flavorid: String,
    },
    /// Another flavor has the name.
    #[error("Flavor with name {name} already exists.")]
    NameExists {
        name: String,
    },
    /// Another flavor has the id.
    #[error("Flavor with ID {flavorid} already exists.")]
    IdExists {
        flavorid: String,
    },
    /// It has no such extra spec.
    #[error("Flavor {flavorid} has no extra specs with key {key}.")]
    NoExtraSpec {
        flavorid: String,
        key: String,
    },
    /// It would have too many extra specs: a guest's flavor has at most 256 (`FlavorBody`).
    #[error("Flavor {flavorid} would have more than {most} extra specs.")]
    ManyExtraSpecs {
        flavorid: String,
        /// So many are allowed.
        most: usize,
    },
    /// The project may use it already.
    #[error(
        "Flavor access already exists for flavor {flavorid} and project {project_id} combination."
    )]
    AccessExists {
        flavorid: String,
        project_id: String,
    },
    /// The project was not among those that may use it.
    #[error("Flavor access not found for flavor {flavorid} / project {project_id} combination.")]
    AccessNotFound {
        flavorid: String,
        project_id: String,
    },
    /// All projects may use it: there is no list of those that may.
    #[error("Can not add access to a public flavor.")]
    Public,
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for FlavorError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl FlavorError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Retryable for FlavorError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}
