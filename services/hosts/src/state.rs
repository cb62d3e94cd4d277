//! The state that all handlers of the internal routes share: the hosts' database and the policy.

use std::sync::Arc;

use berth_http::{ApiRequest, Fault, Policy};

use crate::hosts::Hosts;

/// Shared state of the handlers.
#[derive(Clone)]
pub(crate) struct HostsApi {
    pub(crate) hosts: Hosts,
    pub(crate) policy: Arc<Policy>,
}

impl HostsApi {
    /// Checks that the policy allows the caller of `call` the action `rule`.
    pub(crate) fn authorize(&self, call: &ApiRequest, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }
}
