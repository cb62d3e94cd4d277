//! [`BootError`]: why a boot attempt failed or was interrupted, and how the conductor continues.

use std::fmt;

use berth_client::placement::ClaimError;
use berth_client::{
    AcceleratorError, GuestApiError, NetworkClientError, PlacementError, ServiceCallError,
};
use berth_hosts::{HostTableError, ServerGroupError};
use berth_model::{ConsumerUuid, Disposition, RequestGroupsError};
use berth_networks::PortRefusal;
use berth_store::SqlError;
use uuid::Uuid;

use crate::filter_scheduler::RequestSpecError;
use crate::journal::JournalError;

/// Why no host was found, in one version for operators and one for users. `Display` is the operators' version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHostReason {
    operator: String,
    pub(super) user: String,
}

impl NoHostReason {
    /// A reason for operators, and the same for users: without names and numbers of hosts, filters, and what others use.
    #[must_use]
    pub fn new(operator: String, user: String) -> Self {
        Self { operator, user }
    }
}

/// A reason that contains only what the user asked for, for both.
impl From<String> for NoHostReason {
    fn from(operator: String) -> Self {
        let user = operator.clone();
        Self { operator, user }
    }
}

impl fmt::Display for NoHostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operator)
    }
}

/// Failure or interruption of a boot attempt.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The guest's goal changed, or the conductor stops.
    #[error("the boot was cancelled")]
    Cancelled,
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    /// ARQs with unknown UUIDs may exist.
    #[error("the result of creating accelerator requests is unknown: {0}")]
    ArqsUnknown(#[source] AcceleratorError),
    /// The request has networks, and the configuration has no network service.
    #[error("there is no network service: write its connection into [neutron]")]
    NoNetworkService,
    #[error(transparent)]
    Network(#[from] NetworkClientError),
    /// A port may exist whose UUID is unknown.
    #[error("the result of creating a port is unknown: {0}")]
    PortsUnknown(#[source] NetworkClientError),
    /// The guest may not have the port or network, on any host.
    #[error(transparent)]
    PortRefused(#[from] PortRefusal),
    /// Others changed the port again and again.
    #[error("port {0} was changed concurrently several times")]
    PortBusy(Uuid),
    /// The chosen host cannot have the port.
    #[error(transparent)]
    PortNotBound(NetworkClientError),
    /// The agent did not answer or is temporarily unable to build.
    #[error(transparent)]
    Agent(GuestApiError),
    #[error(
        "device profile {0} does not exist; list the existing ones with openstack accelerator device profile list"
    )]
    NoProfile(String),
    /// The request groups are invalid.
    #[error(transparent)]
    Groups(#[from] RequestGroupsError),
    /// No host satisfies the request.
    #[error("No valid host was found: {0}")]
    NoValidHost(NoHostReason),
    /// No host yet: the conductor started recently, and some agents have not reported.
    #[error("No valid host was found yet: {0}")]
    HostsNotReported(NoHostReason),
    /// The scheduler cannot use the flavor or image.
    #[error(transparent)]
    Request(#[from] RequestSpecError),
    #[error("failed to read the hosts' states: {0}")]
    Hosts(#[from] HostTableError),
    #[error(transparent)]
    Group(#[from] ServerGroupError),
    /// Another conductor owns a guest with this UUID.
    #[error(
        "guest {0} is owned by another conductor; use another UUID, or delete that guest first"
    )]
    OwnedByOther(ConsumerUuid),
    /// Concurrent placements in the server group won in every round.
    #[error("the server group was changed concurrently {0} times")]
    GroupBusy(usize),
    /// The group placement was removed as stale before the claim.
    #[error("its server group membership was removed before the claim")]
    GroupPlaceLost,
    /// The claim is no longer in Placement.
    #[error("its claim no longer exists in Placement")]
    ClaimLost,
    #[error("No valid host was found: {} was claimed by another request", candidate_count(*.0))]
    AllTaken(usize),
    #[error("no agent is known for host {0}: add the host to [conductor_service] agents")]
    NoAgent(String),
    /// The candidate has no provider for a request group.
    #[error(
        "the claim has no provider for group {0} of the device profile; the profile was changed concurrently"
    )]
    NoMapping(u32),
    /// Placement's candidate does not say which provider serves a port.
    #[error("the claim has no provider for request group {group} of port {port}")]
    NoPortMapping { port: Uuid, group: Uuid },
    #[error("failed to bind its accelerator requests: {0}")]
    NotBound(String),
    /// The ARQs were deleted before they were bound.
    #[error("its accelerator requests no longer exist: {0}")]
    ArqsGone(String),
    /// The devices are still being prepared, e.g. programmed.
    #[error("its devices are not ready: {0}")]
    NotReady(String),
    /// The agent failed to build the guest.
    #[error("{0}")]
    NotBuilt(String),
    /// The image is unusable on any host.
    #[error("{0}")]
    BadImage(String),
    /// The host cannot build the guest, whichever of its devices are used.
    #[error("{0}")]
    HostCannot(String),
    /// The agent refused the request, and every other agent would, too.
    #[error("{0}")]
    NotAccepted(GuestApiError),
}

impl BootError {
    /// How to continue: `Retry` repeats the step later, `Refresh` starts the next attempt with other candidates,
    /// `Fatal` fails the boot.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Placement(error) => retry(error.disposition()),
            Self::Claim(ClaimError::Placement(error)) => retry(error.disposition()),
            Self::Accelerator(error) => retry(error.disposition()),
            Self::Network(error) => retry(error.disposition()),
            Self::Journal(_)
            | Self::Cancelled
            | Self::Agent(_)
            | Self::ArqsUnknown(_)
            | Self::PortsUnknown(_)
            | Self::PortBusy(_)
            | Self::HostsNotReported(_)
            // After a start, the agent of a claimed host may not have reported yet.
            | Self::NoAgent(_)
            | Self::GroupBusy(_)
            | Self::NotReady(_) => Disposition::Retry,
            Self::Hosts(error) | Self::Group(ServerGroupError::Table(error)) => table_disposition(error),
            Self::Group(error) => retry(error.disposition()),
            Self::AllTaken(_)
            | Self::GroupPlaceLost
            | Self::ClaimLost
            | Self::Claim(ClaimError::Taken(_))
            | Self::NoMapping(_)
            | Self::NoPortMapping { .. }
            | Self::NotBound(_)
            | Self::ArqsGone(_)
            | Self::PortNotBound(_)
            | Self::NotBuilt(_)
            | Self::HostCannot(_) => Disposition::Refresh,
            Self::Claim(ClaimError::HoldsOther { .. } | ClaimError::NoAllocations { .. })
            | Self::OwnedByOther(_)
            | Self::NoProfile(_)
            | Self::NoNetworkService
            | Self::PortRefused(_)
            | Self::Groups(_)
            | Self::NoValidHost(_)
            | Self::Request(_)
            | Self::BadImage(_)
            | Self::NotAccepted(_) => Disposition::Fatal,
        }
    }

    /// Whether the next attempt avoids the claimed devices.
    pub(crate) fn avoids_claimed_devices(&self) -> bool {
        matches!(
            self,
            Self::NotBound(_) | Self::NotReady(_) | Self::NotBuilt(_)
        ) || self.avoids_host()
    }

    /// Whether the next attempt avoids the whole host.
    pub(crate) fn avoids_host(&self) -> bool {
        matches!(self, Self::HostCannot(_) | Self::PortNotBound(_)) || self.is_agent_failure()
    }

    /// Whether the host's agent is unavailable, so that another host may succeed. A failure of the identity
    /// service affects all agents.
    pub(crate) fn is_agent_failure(&self) -> bool {
        match self {
            Self::Agent(GuestApiError::Call(ServiceCallError::Auth(_))) => false,
            Self::Agent(_) | Self::NoAgent(_) => true,
            _ => false,
        }
    }

    /// Whether the cause is expected to disappear without intervention.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::NotReady(_))
    }
}

/// A boot waits for its database as for any other service, also while the disk is full. After a write with an unknown
/// result, the group is read again before it is written. Only invalid data is fatal.
fn table_disposition(error: &HostTableError) -> Disposition {
    match error {
        HostTableError::Sql(SqlError::Nul(_) | SqlError::Character(_) | SqlError::Corrupt(_))
        | HostTableError::UnexpectedValue { .. } => Disposition::Fatal,
        HostTableError::Sql(_) => Disposition::Retry,
    }
}

fn candidate_count(candidates: usize) -> String {
    match candidates {
        1 => "the only candidate".to_owned(),
        many => format!("each of {many} candidates"),
    }
}

/// Each step reads the current state before it acts, so `Refresh` is the same as `Retry`.
fn retry(disposition: Disposition) -> Disposition {
    match disposition {
        Disposition::Fatal => Disposition::Fatal,
        Disposition::Retry | Disposition::Refresh => Disposition::Retry,
    }
}
