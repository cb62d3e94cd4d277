//! Handlers of the internal routes, one module per resource.

mod host_services;
mod host_states;
mod hosts;

use berth_http::{Fault, OperationSet};
use berth_wire::BodyError;

use crate::state::HostsApi;

/// All operations of the API.
pub(crate) fn operations() -> OperationSet<HostsApi> {
    let resources = [
        hosts::operations(),
        host_states::operations(),
        host_services::operations(),
    ];
    resources.into_iter().flatten().collect()
}

/// Converts an invalid field into a 400 response.
pub(crate) fn not_valid(error: &BodyError) -> Fault {
    Fault::bad_request(format!("JSON does not validate: {error}"))
}
