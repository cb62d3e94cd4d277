//! [`ComputeApi`]: the state that all request handlers share.

use std::sync::Arc;

use berth_http::{ApiRequest, Fault, Operation, Policy, RuleDefault, ValidateToken};

use crate::compute::Compute;
use crate::policies::ADMIN;

pub(crate) type ComputeOperation = Operation<ComputeApi>;

/// The service and its policy. Handlers add methods in their own files.
#[derive(Clone)]
pub(crate) struct ComputeApi {
    pub(crate) compute: Compute,
    policy: Arc<Policy>,
    tokens: Arc<dyn ValidateToken>,
}

impl ComputeApi {
    pub(crate) fn new(
        compute: Compute,
        policy: Arc<Policy>,
        tokens: Arc<dyn ValidateToken>,
    ) -> Self {
        Self {
            compute,
            policy,
            tokens,
        }
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

    /// Refuses the id of a project that does not exist. Without an answer of the identity service it counts as
    /// existing, as in Nova.
    pub(crate) async fn check_project(&self, project_id: &str) -> Result<(), Fault> {
        match self.tokens.project_exists(project_id).await {
            Ok(Some(false)) => {
                let project_id = berth_http::fields::bounded(project_id);
                let sentence = format!("Project ID {project_id} is not a valid project.");
                Err(Fault::bad_request(sentence))
            }
            Ok(Some(true) | None) => Ok(()),
            Err(error) => {
                tracing::warn!(
                    project_id,
                    error = &error as &dyn std::error::Error,
                    "looking up a project failed"
                );
                Ok(())
            }
        }
    }

    /// Whether the caller is an operator of the cloud.
    pub(crate) fn is_admin(&self, call: &ApiRequest) -> bool {
        self.policy.authorize(&call.caller, ADMIN, None).is_ok()
    }
}
