//! Why an aggregate could not be made, read or changed.

use berth_store::{Disposition, Retryable, SqlError};
use berth_wire::BodyError;

use crate::store::TableError;

/// Why an aggregate could not be made, read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AggregateError {
    /// A field is not what it may be.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There is no such aggregate.
    #[error("there is no aggregate {id}")]
    NotFound {
        id: i64,
    },
    /// Another aggregate has the name.
    #[error("another aggregate is called {name}")]
    NameTaken {
        name: String,
    },
    /// There is no such host.
    #[error("there is no compute host {host}")]
    NoSuchHost {
        host: String,
    },
    /// The host is in it already.
    #[error("host {host} is in aggregate {name} already")]
    HostIsMember {
        name: String,
        host: String,
    },
    /// The host is not in it.
    #[error("host {host} is not in aggregate {name}")]
    HostIsNoMember {
        name: String,
        host: String,
    },
    /// It has hosts, and only one without is removed.
    #[error("aggregate {name} has hosts, {host} among them: take them out first")]
    NotEmpty {
        name: String,
        /// The first of them.
        host: String,
    },
    /// A host is in one zone at most.
    #[error("host {host} would be in availability zones {one} and {other}, and a host is in one")]
    TwoZones {
        host: String,
        one: String,
        other: String,
    },
    /// A host with guests stays in its zone.
    #[error(
        "host {host} would go from availability zone {from} to {to} with {guests} guests on it: move or delete them first"
    )]
    HasGuests {
        host: String,
        /// The zone that it is in.
        from: String,
        /// The zone that it would be in.
        to: String,
        /// How many there are.
        guests: i64,
    },
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<SqlError> for AggregateError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl AggregateError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Retryable for AggregateError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}
