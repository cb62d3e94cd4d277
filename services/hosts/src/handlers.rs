//! Handlers of the internal routes, one module per resource.

pub(crate) mod host_services;
pub(crate) mod host_states;
pub(crate) mod hosts;

use berth_http::Fault;
use berth_wire::BodyError;

/// Converts an invalid field into a 400 response.
pub(crate) fn not_valid(error: &BodyError) -> Fault {
    Fault::bad_request(format!("JSON does not validate: {error}"))
}
