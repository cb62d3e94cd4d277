//! Why a build became no guest.

use berth_agent_images::{ConfigDriveError, DiskPlanError, ImageSourceError};
use berth_agent_journal::GuestRequestError;
use berth_model::{Disposition, NodeName, ProviderUuid, ResourceClass};
use berth_virt::guest_spec::{GuestSpecError, InterfaceSource};
use berth_virt::{GuestError, NoLink, ObserveError};

use crate::fit::{FitError, FlavorError};
use crate::guests::GuestsError;

/// A build that became no guest. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// This agent takes guests' specs only whole.
    #[error("this agent builds no guests of flavors; name the whole guest in spec")]
    NotHere,
    /// A field does not fit.
    #[error("{field}: {reason}")]
    Field {
        field: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// An extra spec does not fit.
    #[error(transparent)]
    Flavor(#[from] FlavorError),
    /// A part of the guest does not fit.
    #[error(transparent)]
    Spec(#[from] GuestSpecError),
    /// Its disks do not.
    #[error(transparent)]
    Disks(#[from] DiskPlanError),
    /// Its image does not.
    #[error(transparent)]
    Image(#[from] ImageSourceError),
    /// Its config drive does not.
    #[error(transparent)]
    ConfigDrive(#[from] ConfigDriveError),
    /// Its requests do not.
    #[error(transparent)]
    Request(#[from] GuestRequestError),
    /// The hypervisor has no such node.
    #[error("node: the hypervisor has no node {node}; it has {}", listed(.known))]
    NoSuchNode {
        node: NodeName,
        known: Vec<NodeName>,
    },
    /// Its allocations name devices, and the node was not reported yet.
    #[error(
        "allocations: node {node} has not been reported to Placement since the agent's start; try again when it has"
    )]
    Unreported { node: NodeName },
    /// The flavor asks for more than is allocated.
    #[error(
        "allocations: the flavor asks for {asked} of {class}, {found} are allocated; all of it must be, or the guest would lack devices"
    )]
    NotAllocated {
        /// The class; `PCI devices` for those of aliases.
        class: String,
        /// How many are asked for.
        asked: u64,
        /// How many are allocated.
        found: u64,
    },
    /// Devices of the accelerator service without a request for them.
    #[error(
        "allocations: {held} of the accelerator service's devices are allocated ({class}), and accelerator_requests names {requests}; \
         such a device comes by a device profile (--device-profile, or accel:device_profile in the flavor), not by \
         flavor.extra_specs.resources:{class}"
    )]
    Unasked {
        /// The class, or the first of several.
        class: ResourceClass,
        /// How many are allocated.
        held: u64,
        /// How many requests there are.
        requests: u64,
    },
    /// A provider's allocation cannot be met.
    #[error("allocations.{provider}.{class}: {reason}")]
    Allocation {
        provider: ProviderUuid,
        class: ResourceClass,
        reason: String,
    },
    /// The host has no place for it.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// There is nothing to plug one of its interfaces into.
    #[error("networks: {} cannot be plugged into on this host: {}", source_of(&.0.source), .0.reason)]
    NoLink(NoLink),
    /// Nobody says whether its interfaces can be plugged in.
    #[error("the host's networks cannot be looked at: {0}")]
    Links(#[source] GuestError),
    /// The host cannot be looked at.
    #[error("the host cannot be looked at: {0}")]
    Observe(#[from] ObserveError),
    /// It is known already, or cannot be written down.
    #[error(transparent)]
    Guests(#[from] GuestsError),
}

/// What a build that failed is to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildFault {
    /// The body is wrong: the same will be refused everywhere.
    Body,
    /// This host has no room for it now; another may.
    NoRoom,
    /// It cannot be said now; the same may be asked again.
    Later,
    /// A guest is in its way.
    Guests,
}

impl BuildError {
    pub fn field(field: impl Into<String>, reason: impl ToString) -> Self {
        Self::Field {
            field: field.into(),
            reason: reason.to_string(),
        }
    }

    /// What it is to its sender.
    #[must_use]
    pub fn fault(&self) -> BuildFault {
        match self {
            Self::Field { .. }
            | Self::Flavor(_)
            | Self::Spec(_)
            | Self::Disks(_)
            | Self::Image(_)
            | Self::ConfigDrive(_)
            | Self::Request(_)
            | Self::NotAllocated { .. }
            | Self::Unasked { .. } => BuildFault::Body,
            Self::NotHere
            | Self::NoSuchNode { .. }
            | Self::Fit(_)
            | Self::Allocation { .. }
            | Self::NoLink(_) => BuildFault::NoRoom,
            Self::Unreported { .. } | Self::Observe(_) | Self::Links(_) => BuildFault::Later,
            Self::Guests(_) => BuildFault::Guests,
        }
    }

    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self.fault() {
            BuildFault::Body => Disposition::Fatal,
            BuildFault::NoRoom | BuildFault::Guests => Disposition::Refresh,
            BuildFault::Later => Disposition::Retry,
        }
    }
}

fn source_of(source: &InterfaceSource) -> String {
    match source {
        InterfaceSource::Network(name) => format!("the network {name}"),
        InterfaceSource::Bridge(name) => format!("the bridge {name}"),
    }
}

fn listed(nodes: &[NodeName]) -> String {
    let names: Vec<_> = nodes.iter().map(NodeName::as_str).collect();
    names.join(", ")
}
