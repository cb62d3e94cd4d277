//! A file per noun: what each method of each path does, and what is told when it cannot.

pub(crate) mod host_services;
pub(crate) mod host_states;
pub(crate) mod hosts;

use berth_http::Fault;
use berth_wire::BodyError;

/// A field of a body that is not what it may be.
pub(crate) fn not_valid(error: &BodyError) -> Fault {
    Fault::bad_request(format!("JSON does not validate: {error}"))
}
