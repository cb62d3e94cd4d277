//! [`ComputeApi`]: the state that all request handlers share.

use std::sync::Arc;

use berth_http::{ApiRequest, Fault, Policy};

use crate::compute::Compute;
use crate::policies;

/// The service and its policy. Handlers add methods in their own files.
#[derive(Clone)]
pub(crate) struct ComputeApi {
    pub(crate) compute: Compute,
    policy: Arc<Policy>,
}

impl ComputeApi {
    pub(crate) fn new(compute: Compute, policy: Policy) -> Self {
        Self {
            compute,
            policy: Arc::new(policy),
        }
    }

    /// Checks a policy rule for the caller's own project.
    pub(crate) fn allow(&self, call: &ApiRequest, rule: &'static str) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, None)
    }

    /// Checks a policy rule for an object of a project.
    pub(crate) fn allow_in(
        &self,
        call: &ApiRequest,
        rule: &'static str,
        project: &str,
    ) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule, Some(project))
    }

    /// Whether the caller is an operator of the cloud.
    pub(crate) fn is_admin(&self, call: &ApiRequest) -> bool {
        self.allow(call, policies::ADMIN).is_ok()
    }
}
