//! Errors of the service: what ends it, and what causes a retry.

use std::time::Duration;

use berth_agent_api::{AdminError, FailureCause};
use berth_agent_tracker::disabled::DisabledError;
use berth_agent_tracker::node_identity::NodeIdentityError;
use berth_agent_tracker::propose::ProposeError;
use berth_agent_tracker::report_client::ReportError;
use berth_agent_tracker::startup::StartupError;
use berth_agent_tracker::tick::TickError;
use berth_client::{AuthError, PlacementError, ServiceCallError};
use berth_model::{Disposition, NodeName, PendingReshape};
use berth_virt::ObserveError;

/// Reason of the service's end, for the exit code. The composition root assigns the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitReason {
    /// A reshape is needed; the next start performs it (75).
    ReshapeNeeded,
    /// A reshape was refused (76).
    ReshapeFailed,
    /// The configuration, the credentials or the node's identity are wrong; an operator must act (78).
    Configuration,
    /// A service or the hypervisor did not answer before the deadline, or refused a request that a later start may send
    /// successfully (69).
    DependencyGone,
    /// A state file could not be read or written (74).
    Disk,
    /// Another agent is running (73).
    HeldByAnother,
    Bug,
}

/// The service ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error(transparent)]
    Disabled(#[from] DisabledError),
    #[error("cannot wait for SIGHUP")]
    Signals(#[source] std::io::Error),
    /// The hypervisor cannot be observed, and a retry would not help.
    #[error("the hypervisor cannot be observed")]
    Observe(#[source] ObserveError),
    /// The start of a node failed, and a retry would not help.
    #[error("node {node} cannot be started")]
    Start {
        node: NodeName,
        #[source]
        source: PassError,
    },
    /// A node must be reshaped, which is only possible at startup.
    #[error("the provider tree of {node} must be reshaped; the next start performs the reshape")]
    ReshapeNeeded {
        node: NodeName,
        pending: Box<PendingReshape>,
    },
    /// A one-shot run was not done in time.
    #[error("not done within {}", humantime::format_duration(*deadline))]
    DeadlinePassed {
        deadline: Duration,
        #[source]
        last: Box<LastFailure>,
    },
    #[error("a pass panicked: {message}")]
    Panicked { message: String },
}

/// Last failure before the deadline.
#[derive(Debug, thiserror::Error)]
pub enum LastFailure {
    #[error("the hypervisor cannot be observed")]
    Observe(#[source] ObserveError),
    #[error("the cycle over node {node} failed")]
    Pass {
        node: NodeName,
        #[source]
        source: PassError,
    },
    /// The hypervisor answers and reports no node.
    #[error("the hypervisor reports no node")]
    NoNode,
    /// Nothing failed, but a response is missing.
    #[error("the hypervisor or Placement did not answer")]
    NoAnswer,
}

impl ServiceError {
    /// Reason for the exit code.
    #[must_use]
    pub fn reason(&self) -> ExitReason {
        match self {
            ServiceError::Admin(error) => reason_of_admin_error(error),
            ServiceError::Disabled(_) => ExitReason::Disk,
            ServiceError::Observe(_) => ExitReason::Configuration,
            ServiceError::Start { source, .. } => source.reason(),
            ServiceError::ReshapeNeeded { .. } => ExitReason::ReshapeNeeded,
            ServiceError::DeadlinePassed { .. } => ExitReason::DependencyGone,
            ServiceError::Signals(_) | ServiceError::Panicked { .. } => ExitReason::Bug,
        }
    }
}

/// A pass over one node failed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error(transparent)]
    Identity(#[from] NodeIdentityError),
    #[error("renaming the providers of a renamed host failed")]
    Rename(#[source] ReportError),
    #[error(transparent)]
    Startup(#[from] StartupError),
    #[error(transparent)]
    Tick(#[from] TickError),
}

impl PassError {
    /// What the loop should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            PassError::Identity(error) => error.disposition(),
            PassError::Rename(error) => error.disposition(),
            PassError::Startup(error) => error.disposition(),
            PassError::Tick(error) => error.disposition(),
        }
    }

    fn propose(&self) -> Option<&ProposeError> {
        match self {
            PassError::Startup(error) => error.propose(),
            PassError::Tick(TickError::Propose(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether the provider files contradict the observed host.
    #[must_use]
    pub fn is_of_provider_files(&self) -> bool {
        matches!(self.propose(), Some(ProposeError::ProviderFiles(_)))
    }

    /// Cause of the failure.
    pub(crate) fn failure_cause(&self) -> FailureCause {
        match self {
            PassError::Startup(error) if error.is_reshape_failed() => FailureCause::ReshapeFailed,
            PassError::Tick(TickError::ReshapeNeeded(_)) => FailureCause::ReshapeNeeded,
            _ => match self.placement() {
                Some(error) if refuses(error) => FailureCause::PlacementRefuses,
                Some(error) if is_away(error) => FailureCause::PlacementUnreachable,
                Some(_) => FailureCause::Other,
                None if matches!(self, PassError::Identity(_)) => FailureCause::Identity,
                None => FailureCause::Other,
            },
        }
    }

    /// Whether a plan was made before the failure.
    pub(crate) fn was_planned(&self) -> bool {
        matches!(
            self,
            PassError::Rename(_)
                | PassError::Startup(StartupError::Report(_))
                | PassError::Tick(TickError::Report(_))
        )
    }

    /// The error of the Placement request, if one failed.
    #[must_use]
    pub fn placement(&self) -> Option<&PlacementError> {
        match self {
            PassError::Identity(NodeIdentityError::Placement { source, .. }) => Some(source),
            PassError::Identity(_) => None,
            PassError::Rename(report)
            | PassError::Tick(
                TickError::Report(report) | TickError::Propose(ProposeError::Report(report)),
            ) => report.placement(),
            PassError::Startup(error) => error.placement(),
            PassError::Tick(_) => None,
        }
    }

    /// What the user can do about a Placement that does not answer, with the option that names it. Other errors say it
    /// themselves.
    pub(crate) fn hint(&self) -> Option<String> {
        match self.placement() {
            Some(PlacementError::Call(error)) => error.hint("placement"),
            _ => None,
        }
    }

    fn reason(&self) -> ExitReason {
        match self {
            PassError::Startup(error) if error.is_reshape_failed() => ExitReason::ReshapeFailed,
            PassError::Tick(TickError::ReshapeNeeded(_)) => ExitReason::ReshapeNeeded,
            PassError::Identity(NodeIdentityError::File { .. }) => ExitReason::Disk,
            _ => match self.placement() {
                // A proxy in front of Placement may send a 400; a later start may succeed.
                Some(PlacementError::Refused(refusal))
                    if refusal.status == http::StatusCode::BAD_REQUEST =>
                {
                    ExitReason::DependencyGone
                }
                Some(_) => ExitReason::Configuration,
                None if matches!(self, PassError::Identity(_)) => ExitReason::Configuration,
                None => match self.propose() {
                    Some(ProposeError::ProviderFiles(_)) => ExitReason::Configuration,
                    Some(ProposeError::Applied(_)) => ExitReason::Disk,
                    _ => ExitReason::Bug,
                },
            },
        }
    }
}

fn refuses(error: &PlacementError) -> bool {
    match error {
        PlacementError::Call(ServiceCallError::Auth(error)) => {
            error.disposition() == Disposition::Fatal
        }
        PlacementError::Forbidden { .. }
        | PlacementError::Unauthorized { .. }
        | PlacementError::NotPlacement { .. }
        | PlacementError::TooOld { .. }
        | PlacementError::NameTaken(_)
        | PlacementError::Refused(_) => true,
        _ => false,
    }
}

fn is_away(error: &PlacementError) -> bool {
    match error {
        PlacementError::Call(ServiceCallError::Auth(
            AuthError::Unavailable { .. } | AuthError::Transport { .. },
        )) => true,
        PlacementError::Call(
            ServiceCallError::Transport { .. } | ServiceCallError::AnswerLost { .. },
        ) => true,
        PlacementError::Unavailable(_) => true,
        PlacementError::Call(_) | PlacementError::Malformed { .. } => {
            error.disposition() == Disposition::Retry
        }
        _ => false,
    }
}

/// Reason for an API that cannot be opened.
fn reason_of_admin_error(error: &AdminError) -> ExitReason {
    use std::io::ErrorKind::{AddrInUse, QuotaExceeded, StorageFull};
    match error {
        AdminError::Held { .. } => ExitReason::HeldByAnother,
        AdminError::Listen { source, .. } | AdminError::ListenTls { source, .. }
            if source.kind() == AddrInUse =>
        {
            ExitReason::HeldByAnother
        }
        AdminError::Socket { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded) =>
        {
            ExitReason::Disk
        }
        AdminError::NotASocket { .. }
        | AdminError::Socket { .. }
        | AdminError::NotLoopback { .. }
        | AdminError::Listen { .. }
        | AdminError::ListenTls { .. } => ExitReason::Configuration,
    }
}

#[cfg(test)]
mod tests {
    use berth_agent_tracker::provider_config::{ProviderConfigMergeError, ProviderIdentification};
    use berth_model::ProviderName;

    use super::*;

    #[test]
    fn a_provider_file_that_contradicts_the_host_is_an_error_of_the_configuration() {
        let conflict = ProviderConfigMergeError::Drivers {
            file: "/etc/berth/provider_config/gpu.yaml".to_owned(),
            provider: ProviderIdentification::ComputeNode,
            name: ProviderName::new("gpu-01").expect("a name"),
            item: "the inventory of CUSTOM_GPU".to_owned(),
        };
        let source = PassError::Startup(StartupError::Propose(conflict.into()));
        assert!(source.is_of_provider_files());
        let node = NodeName::new("gpu-01").expect("a name");
        let error = ServiceError::Start { node, source };
        assert_eq!(error.reason(), ExitReason::Configuration);
    }
}
