//! Hosts and requests for tests, written as cases write them.

use std::sync::Arc;

use serde_json::Value;

use super::field::Field;
use super::{host, request};
use crate::host_state::{AllocationCandidate, ConsideredHost};
use crate::request::RequestSpec;

/// Hosts that no filter has looked at; those without a name are h0, h1, ...
pub(crate) fn hosts(hosts: &Value) -> Vec<ConsideredHost> {
    let fields = Field::root(hosts).items().expect("a list");
    let considered = fields.iter().enumerate().map(|(place, field)| {
        let state = host::read(field, place).expect("a host");
        let candidates: Arc<[AllocationCandidate]> =
            host::candidates(field).expect("candidates").into();
        ConsideredHost::new(Arc::new(state), candidates)
    });
    considered.collect()
}

pub(crate) fn request(request: &Value) -> RequestSpec {
    match request::read(&Field::root(request)) {
        Ok(request) => request,
        Err(_) => panic!("no request: {request}"),
    }
}
