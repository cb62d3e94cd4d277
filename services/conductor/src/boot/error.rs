//! Why a boot did not come to its end.

use berth_client::placement::ClaimError;
use berth_client::{AcceleratorError, CallError, GuestApiError, PlacementError};
use berth_hosts::{ServerGroupError, TableError};
use berth_model::{ConsumerUuid, Disposition, NodeName, RequestGroupsError};
use berth_store::SqlError;

use super::NoHostWhy;
use crate::destinations::RequestSpecError;
use crate::journal::JournalError;

/// A boot that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The guest is deleted meanwhile, or the conductor stops.
    #[error("it was called off")]
    Cancelled,
    /// Placement did not answer as hoped.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A candidate could not be claimed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The accelerator service did not answer as hoped.
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    /// Requests may have been made that nobody knows.
    #[error("whether accelerator requests were made is not known: {0}")]
    RequestsUnknown(#[source] AcceleratorError),
    /// The agent did not answer, or not yet.
    #[error(transparent)]
    Agent(GuestApiError),
    /// There is no such profile.
    #[error(
        "device profile {0} does not exist; openstack accelerator device profile list names those that do"
    )]
    NoProfile(String),
    /// What is asked for cannot be asked of Placement.
    #[error(transparent)]
    Groups(#[from] RequestGroupsError),
    /// Nothing satisfies what is asked for.
    #[error("No valid host was found: {0}")]
    NoValidHost(NoHostWhy),
    /// Hosts were not heard of yet, since the conductor has only just begun to listen.
    #[error("No valid host was found yet: {0}")]
    HostsSilent(NoHostWhy),
    /// The scheduler cannot be asked for it.
    #[error(transparent)]
    Request(#[from] RequestSpecError),
    /// What is known of the hosts cannot be read.
    #[error("the hosts' states cannot be read: {0}")]
    Hosts(#[from] TableError),
    /// Its server group cannot be read or written.
    #[error(transparent)]
    Group(#[from] ServerGroupError),
    /// Its UUID is another conductor's guest.
    #[error(
        "guest {0} is another conductor's, which was asked for it before; ask for another UUID, or have that guest deleted"
    )]
    OtherConductors(ConsumerUuid),
    /// Others of its server group were placed all the time.
    #[error("others of its server group were quicker {0} times")]
    GroupBusy(usize),
    /// Its place in its server group was given up before it was claimed.
    #[error("its place in its server group was given up before its claim")]
    PlaceLost,
    /// Placement has not what was claimed for it.
    #[error("Placement does not have what was claimed for it any more")]
    ClaimLost,
    #[error("No valid host was found: {} was taken by somebody else meanwhile", each_of(*.0))]
    AllTaken(usize),
    /// Nobody knows the node's agent.
    #[error("no agent of node {0} is known")]
    NoAgent(NodeName),
    /// The candidate does not say which provider serves a group.
    #[error(
        "the claim does not say which provider serves group {0} of the device profile; it was changed meanwhile"
    )]
    NoMapping(u32),
    /// The accelerator service could not bind.
    #[error("its accelerator requests could not be bound: {0}")]
    NotBound(String),
    /// Its requests were deleted before they were bound.
    #[error("its accelerator requests are not there any more: {0}")]
    RequestsGone(String),
    /// Its devices are being made ready for it.
    #[error("its accelerator requests wait for their devices: {0}")]
    NotReady(String),
    /// The agent could not build it.
    #[error("{0}")]
    NotBuilt(String),
    /// Its image cannot be used, by any host.
    #[error("{0}")]
    BadImage(String),
    /// The host cannot build it with any of its devices.
    #[error("{0}")]
    HostCannot(String),
    /// The agent will not have the request, and no other would.
    #[error("{0}")]
    NotAccepted(GuestApiError),
}

impl BootError {
    /// What follows: the same again later; the next attempt with other candidates; or the end.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Placement(error) => again(error.disposition()),
            Self::Claim(ClaimError::Placement(error)) => again(error.disposition()),
            Self::Accelerator(error) => again(error.disposition()),
            Self::Journal(_)
            | Self::Cancelled
            | Self::Agent(_)
            | Self::RequestsUnknown(_)
            | Self::HostsSilent(_)
            // One that was claimed on is not reported again yet: after a start its agent may be a moment behind.
            | Self::NoAgent(_)
            | Self::GroupBusy(_)
            | Self::NotReady(_) => Disposition::Retry,
            Self::Hosts(error) | Self::Group(ServerGroupError::Table(error)) => of_tables(error),
            Self::Group(error) => again(error.disposition()),
            Self::AllTaken(_)
            | Self::PlaceLost
            | Self::ClaimLost
            | Self::Claim(ClaimError::Taken(_))
            | Self::NoMapping(_)
            | Self::NotBound(_)
            | Self::RequestsGone(_)
            | Self::NotBuilt(_)
            | Self::HostCannot(_) => Disposition::Refresh,
            Self::Claim(ClaimError::HoldsOther { .. })
            | Self::OtherConductors(_)
            | Self::NoProfile(_)
            | Self::Groups(_)
            | Self::NoValidHost(_)
            | Self::Request(_)
            | Self::BadImage(_)
            | Self::NotAccepted(_) => Disposition::Fatal,
        }
    }

    /// Whether what was claimed is to blame, so that it is not tried again.
    pub(crate) fn blames_the_claim(&self) -> bool {
        matches!(
            self,
            Self::NotBound(_) | Self::NotReady(_) | Self::NotBuilt(_)
        ) || self.blames_the_host()
    }

    /// Whether the host is to blame, whichever of its devices are taken.
    pub(crate) fn blames_the_host(&self) -> bool {
        matches!(self, Self::HostCannot(_)) || self.is_of_the_agent()
    }

    /// Whether it is the host's agent that is away: another host has another. Whoever gives tokens for them is one for all.
    pub(crate) fn is_of_the_agent(&self) -> bool {
        match self {
            Self::Agent(GuestApiError::Call(CallError::Auth(_))) => false,
            Self::Agent(_) | Self::NoAgent(_) => true,
            _ => false,
        }
    }

    /// Whether what is to blame is fit again by itself, after a while.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::NotReady(_))
    }
}

/// A boot waits for a database as for any service, also for a disk that is full, and after a write of which nobody knows whether it
/// was done: the group is read again before it is written again. Only what is in the tables, or in the request, stays as it is.
fn of_tables(error: &TableError) -> Disposition {
    match error {
        TableError::Sql(SqlError::Nul(_) | SqlError::Character(_) | SqlError::Corrupt(_))
        | TableError::Foreign { .. } => Disposition::Fatal,
        TableError::Sql(_) => Disposition::Retry,
    }
}

/// All of so many candidates.
fn each_of(candidates: usize) -> String {
    match candidates {
        1 => "the only candidate".to_owned(),
        many => format!("each of {many} candidates"),
    }
}

/// What was done has to be read, and each step reads before it acts.
fn again(disposition: Disposition) -> Disposition {
    match disposition {
        Disposition::Fatal => Disposition::Fatal,
        Disposition::Retry | Disposition::Refresh => Disposition::Retry,
    }
}
