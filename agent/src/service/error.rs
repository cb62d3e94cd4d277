//! What ends the service, and what merely makes it try again.

use std::time::Duration;

use berth_agent_api::{AdminError, Trouble};
use berth_agent_tracker::disabled::DisabledError;
use berth_agent_tracker::node_identity::IdentityError;
use berth_agent_tracker::propose::ProposeError;
use berth_agent_tracker::report_client::ReportError;
use berth_agent_tracker::startup::StartupError;
use berth_agent_tracker::tick::TickError;
use berth_client::{AuthError, PlacementError, ServiceCallError};
use berth_model::{Disposition, NodeName, PendingReshape};
use berth_virt::ObserveError;

/// Why the service ended, as the process's exit code tells it. The composition root gives each its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitReason {
    /// A reshape is needed; the next start does it (75).
    ReshapeNeeded,
    /// A reshape was refused (76).
    ReshapeFailed,
    /// The configuration, the credentials or the node's identity: a person must act (78).
    Configuration,
    /// A service or the hypervisor was away until the deadline, or does not take a request that another start makes anew
    /// (69).
    DependencyGone,
    /// A file could not be read or written (74).
    Disk,
    /// Another agent runs (73).
    HeldByAnother,
    Bug,
}

/// What ended the service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The admin socket or the metrics' port cannot be opened.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The agent cannot determine whether the host is disabled.
    #[error(transparent)]
    Disabled(#[from] DisabledError),
    /// The system does not deliver signals to this process.
    #[error("cannot wait for SIGHUP")]
    Signals(#[source] std::io::Error),
    /// The hypervisor cannot be observed, and waiting does not help.
    #[error("the hypervisor cannot be observed")]
    Observe(#[source] ObserveError),
    /// The start of a node failed, and trying again does not help.
    #[error("node {node} cannot be started")]
    Start {
        node: NodeName,
        #[source]
        source: PassError,
    },
    /// A node must be reshaped, which only a start may do.
    #[error("the provider tree of {node} must be reshaped, which the next start does")]
    ReshapeNeeded {
        node: NodeName,
        pending: Box<PendingReshape>,
    },
    /// What was to be done once was not done in time.
    #[error("not done within {}", humantime::format_duration(*deadline))]
    DeadlinePassed {
        /// The time that was given.
        deadline: Duration,
        #[source]
        last: Box<LastFailure>,
    },
    /// A pass ended in a panic.
    #[error("a pass ended in a panic: {message}")]
    Panicked { message: String },
}

/// What failed last before a deadline passed.
#[derive(Debug, thiserror::Error)]
pub enum LastFailure {
    #[error("the hypervisor cannot be observed")]
    Observe(#[source] ObserveError),
    #[error("the pass over node {node} failed")]
    Pass {
        node: NodeName,
        #[source]
        source: PassError,
    },
    /// The hypervisor answers, but has no node.
    #[error("the hypervisor shows no node")]
    NoNode,
    /// Nothing failed: something did not come back.
    #[error("the hypervisor or Placement did not come back with an answer")]
    NoAnswer,
}

impl ServiceError {
    /// What the process's exit code should say.
    #[must_use]
    pub fn reason(&self) -> ExitReason {
        match self {
            ServiceError::Admin(error) => of_admin(error),
            ServiceError::Disabled(_) => ExitReason::Disk,
            ServiceError::Observe(_) => ExitReason::Configuration,
            ServiceError::Start { source, .. } => source.reason(),
            ServiceError::ReshapeNeeded { .. } => ExitReason::ReshapeNeeded,
            ServiceError::DeadlinePassed { .. } => ExitReason::DependencyGone,
            ServiceError::Signals(_) | ServiceError::Panicked { .. } => ExitReason::Bug,
        }
    }
}

/// A pass over one node that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The identity of the node is unknown.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The renamed host's providers could not be renamed.
    #[error("the providers of a renamed host")]
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

    /// On which side it broke.
    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            PassError::Startup(error) if error.is_reshape_failed() => Trouble::ReshapeFailed,
            PassError::Tick(TickError::ReshapeNeeded(_)) => Trouble::ReshapeNeeded,
            _ => match self.placement() {
                Some(error) if refuses(error) => Trouble::PlacementRefuses,
                Some(error) if is_away(error) => Trouble::PlacementAway,
                Some(_) => Trouble::Other,
                None if matches!(self, PassError::Identity(_)) => Trouble::Identity,
                None => Trouble::Other,
            },
        }
    }

    /// Whether a plan was made before it broke.
    pub(crate) fn was_planned(&self) -> bool {
        matches!(
            self,
            PassError::Rename(_)
                | PassError::Startup(StartupError::Report(_))
                | PassError::Tick(TickError::Report(_))
        )
    }

    /// What came of a call of Placement, where that is what broke it.
    #[must_use]
    pub fn placement(&self) -> Option<&PlacementError> {
        match self {
            PassError::Identity(IdentityError::Placement { source, .. }) => Some(source),
            PassError::Identity(_) => None,
            PassError::Rename(report)
            | PassError::Tick(
                TickError::Report(report) | TickError::Propose(ProposeError::Report(report)),
            ) => report.placement(),
            PassError::Startup(error) => error.placement(),
            PassError::Tick(_) => None,
        }
    }

    fn reason(&self) -> ExitReason {
        match self {
            PassError::Startup(error) if error.is_reshape_failed() => ExitReason::ReshapeFailed,
            PassError::Tick(TickError::ReshapeNeeded(_)) => ExitReason::ReshapeNeeded,
            PassError::Identity(IdentityError::File { .. }) => ExitReason::Disk,
            _ => match self.placement() {
                // A front end answers so, too: another start may be answered otherwise.
                Some(PlacementError::Refused(refusal))
                    if refusal.status == http::StatusCode::BAD_REQUEST =>
                {
                    ExitReason::DependencyGone
                }
                Some(_) => ExitReason::Configuration,
                None if matches!(self, PassError::Identity(_)) => ExitReason::Configuration,
                None => ExitReason::Bug,
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
        | PlacementError::Unauthorized(_)
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

/// What the exit code says of an API that cannot be opened.
fn of_admin(error: &AdminError) -> ExitReason {
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
