//! The state that all handlers of the internal routes share: the hosts' database and the policy.

use std::sync::Arc;

use berth_http::{ApiRequest, Fault, Operation, Policy};

use crate::hosts::Hosts;

pub(crate) type HostsOperation = Operation<HostsApi>;

/// Shared state of the handlers.
#[derive(Clone)]
pub(crate) struct HostsApi {
    pub(crate) hosts: Hosts,
    pub(crate) policy: Arc<Policy>,
}

impl HostsApi {
    /// Checks the operation's policy rule.
    pub(crate) fn allow(&self, call: &ApiRequest) -> Result<(), Fault> {
        self.policy.allow(call, None)
    }
}
