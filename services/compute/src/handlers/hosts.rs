//! What the keepers of hosts, aggregates and server groups refuse, as callers are told it.

use berth_hosts::{AggregateError, ComputeHost, HostError, ServerGroupError, TableError};
use berth_http::Fault;

use crate::router::Api;
use crate::store;

pub(super) fn aggregate_fault(error: AggregateError) -> Fault {
    match error {
        AggregateError::NotFound { .. } => Fault::not_found(error.to_string()),
        AggregateError::Table(error) => table_fault(&error),
        AggregateError::NameTaken { .. } => Fault::conflict(error.to_string()),
        other => Fault::bad_request(other.to_string()),
    }
}

pub(super) fn host_fault(error: HostError) -> Fault {
    match error {
        HostError::NotFound { .. } => Fault::not_found(error.to_string()),
        HostError::Body(error) => Fault::bad_request(error.to_string()),
        HostError::Table(error) => table_fault(&error),
    }
}

pub(super) fn group_fault(error: ServerGroupError) -> Fault {
    match error {
        ServerGroupError::NotFound { .. } => Fault::not_found(error.to_string()),
        ServerGroupError::Body(error) => Fault::bad_request(error.to_string()),
        ServerGroupError::Table(error) => table_fault(&error),
        other => Fault::conflict(other.to_string()),
    }
}

/// The database of hosts failed. The cause goes to the log, once, here.
pub(super) fn table_fault(error: &TableError) -> Fault {
    const DATABASE: &str = "database of hosts";
    match error {
        TableError::Foreign { .. } => {
            tracing::error!(error = error as &dyn std::error::Error, "{DATABASE}");
            Fault::internal(store::FOREIGN)
        }
        TableError::Sql(error) => store::sql_fault(error, DATABASE),
    }
}

impl Api {
    /// How long a host may be silent, in seconds.
    pub(super) fn down(&self) -> f64 {
        let hosts = &self.compute.inner.hosts;
        hosts.options().service_down_time.as_secs_f64()
    }
}

/// Whether a host is heard of, and nobody says that it is dead; as the scheduler has it, a clock that is ahead is as good as one
/// that is behind.
pub(super) fn is_up(host: &ComputeHost, down: f64) -> bool {
    !host.forced_down && host.last_seen_age_s.is_some_and(|age| age.abs() <= down)
}
