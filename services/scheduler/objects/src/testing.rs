//! Hosts and requests for tests, written as cases write them.

use std::sync::Arc;

use serde_json::Value;

use crate::from_json::{CaseField, allocation_candidates, host_state, request_spec};
use crate::host_state::{AllocationCandidate, ConsideredHost};
use crate::request::RequestSpec;

/// Hosts that no filter has looked at; those without a name are h0, h1, ...
pub fn hosts(hosts: &Value) -> Vec<ConsideredHost> {
    let fields = CaseField::root(hosts).items().expect("a list");
    let considered = fields.iter().enumerate().map(|(index, field)| {
        let state = host_state(field, index).expect("a host");
        let candidates: Arc<[AllocationCandidate]> =
            allocation_candidates(field).expect("candidates").into();
        ConsideredHost::new(Arc::new(state), candidates)
    });
    considered.collect()
}

pub fn request(request: &Value) -> RequestSpec {
    match request_spec(&CaseField::root(request)) {
        Ok(request) => request,
        Err(_) => panic!("no request: {request}"),
    }
}
