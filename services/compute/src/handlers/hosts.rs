//! Responses to errors of the hosts service: hosts, aggregates and server groups.

use berth_hosts::{ComputeHost, HostAggregateError, HostError, HostTableError, ServerGroupError};
use berth_http::Fault;

use crate::state::ComputeApi;
use crate::store;

pub(super) fn aggregate_fault(error: HostAggregateError) -> Fault {
    match error {
        HostAggregateError::NotFound { .. } => Fault::not_found(error.to_string()),
        HostAggregateError::Table(error) => table_fault(&error),
        HostAggregateError::NameTaken { .. } => Fault::conflict(error.to_string()),
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
        ServerGroupError::TooMany => Fault::forbidden(error.to_string()),
        ServerGroupError::Table(error) => table_fault(&error),
        other => Fault::conflict(other.to_string()),
    }
}

/// The response to a database failure. The cause is logged here, once.
pub(super) fn table_fault(error: &HostTableError) -> Fault {
    const DATABASE: &str = "database of hosts";
    match error {
        HostTableError::UnexpectedValue { .. } => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "reading the {DATABASE} failed: unknown content"
            );
            Fault::internal(store::FOREIGN)
        }
        HostTableError::Sql(error) => store::sql_fault(error, DATABASE),
    }
}

impl ComputeApi {
    /// After how many seconds without a report a host counts as down.
    pub(super) fn down(&self) -> f64 {
        let hosts = &self.compute.inner.hosts;
        hosts.options().service_down_time.as_secs_f64()
    }
}

/// Whether a host reports and is not forced down. As in the scheduler, a report from the future counts by its distance
/// from now, because clocks may differ.
pub(super) fn is_up(host: &ComputeHost, down: f64) -> bool {
    !host.forced_down && host.last_seen_age_s.is_some_and(|age| age.abs() <= down)
}
