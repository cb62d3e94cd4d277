//! [`HostAggregateError`], the error of all operations on host aggregates.

use berth_store::{Disposition, Retryable, SqlError};
use berth_wire::BodyError;

use crate::store::HostTableError;

/// Error of creating, reading or changing a host aggregate.
#[derive(Debug, thiserror::Error)]
pub enum HostAggregateError {
    /// A field is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("aggregate {id} not found")]
    NotFound { id: i64 },
    #[error("an aggregate with the name {name} already exists")]
    NameTaken { name: String },
    #[error("compute host {host} not found")]
    NoSuchHost { host: String },
    #[error("host {host} is already in aggregate {name}")]
    HostIsMember { name: String, host: String },
    #[error("host {host} is not in aggregate {name}")]
    HostIsNoMember { name: String, host: String },
    /// Only an aggregate without hosts can be deleted.
    #[error("aggregate {name} is not empty: remove host {host} and any other hosts first")]
    NotEmpty {
        name: String,
        /// The first of its hosts.
        host: String,
    },
    /// A host can be in only one zone.
    #[error(
        "host {host} would be in two availability zones, {one} and {other}; a host can be in only one"
    )]
    TwoZones {
        host: String,
        one: String,
        other: String,
    },
    /// A host with guests cannot change its zone.
    #[error(
        "host {host} cannot change from availability zone {from} to {to} while it has {guests} guests: move or delete them first"
    )]
    HasGuests {
        host: String,
        from: String,
        /// The zone after the change.
        to: String,
        /// Number of guests on the host.
        guests: i64,
    },
    #[error(transparent)]
    Table(#[from] HostTableError),
}

impl From<SqlError> for HostAggregateError {
    fn from(error: SqlError) -> Self {
        Self::Table(error.into())
    }
}

impl HostAggregateError {
    /// How a caller's loop continues after the error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Table(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Retryable for HostAggregateError {
    fn disposition(&self) -> Disposition {
        self.disposition()
    }
}
