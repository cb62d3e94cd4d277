//! [`ComputeApi`]: the state that all request handlers share.

use std::sync::Arc;

use berth_http::{ApiRequest, Fault, Operation, Policy, RuleDefault};

use crate::compute::Compute;
use crate::policies::ADMIN;

pub(crate) type ComputeOperation = Operation<ComputeApi>;

/// The service and its policy. Handlers add methods in their own files.
#[derive(Clone)]
pub(crate) struct ComputeApi {
    pub(crate) compute: Compute,
    policy: Arc<Policy>,
}

impl ComputeApi {
    pub(crate) fn new(compute: Compute, policy: Arc<Policy>) -> Self {
        Self { compute, policy }
    }

    /// Checks the operation's policy rule for the caller's own project.
    pub(crate) fn allow(&self, call: &ApiRequest) -> Result<(), Fault> {
        self.policy.allow(call, None)
    }

    /// Checks the operation's policy rule for an object of a project.
    pub(crate) fn allow_in(&self, call: &ApiRequest, project: &str) -> Result<(), Fault> {
        self.policy.allow(call, Some(project))
    }

    /// Checks another policy rule, for the caller's own project unless one is given.
    pub(crate) fn allow_rule(
        &self,
        call: &ApiRequest,
        rule: RuleDefault,
        project: Option<&str>,
    ) -> Result<(), Fault> {
        self.policy.authorize(&call.caller, rule.name, project)
    }

    /// Whether the caller is an operator of the cloud.
    pub(crate) fn is_admin(&self, call: &ApiRequest) -> bool {
        self.policy.authorize(&call.caller, ADMIN, None).is_ok()
    }
}
