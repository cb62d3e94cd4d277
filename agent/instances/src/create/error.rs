//! Errors of builds.

use berth_agent_images::{ConfigDriveError, DiskPlanError, ImageSourceError};
use berth_agent_journal::GuestRequestError;
use berth_model::{Disposition, GuestMachineError, NodeName, ProviderUuid, ResourceClass};
use berth_virt::guest_spec::{GuestSpecError, InterfaceSource};
use berth_virt::{GuestError, NoLink, ObserveError};

use crate::create::host_check::MissingCapability;
use crate::fit::FitError;
use crate::guests::GuestsError;

/// Why a build was refused. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// This agent accepts only complete specs.
    #[error("this agent does not build guests from flavors; pass the complete guest in spec")]
    BuildsNotSupported,
    /// A field of the body is invalid.
    #[error("{field}: {reason}")]
    Field {
        field: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    #[error(transparent)]
    Machine(#[from] GuestMachineError),
    #[error(transparent)]
    Spec(#[from] GuestSpecError),
    #[error(transparent)]
    Disks(#[from] DiskPlanError),
    #[error(transparent)]
    Image(#[from] ImageSourceError),
    #[error(transparent)]
    ConfigDrive(#[from] ConfigDriveError),
    #[error(transparent)]
    Request(#[from] GuestRequestError),
    #[error("node: the hypervisor has no node {node}; it has {}", listed(.known))]
    NoSuchNode {
        node: NodeName,
        known: Vec<NodeName>,
    },
    /// The allocations name devices, and the provider tree of the node is not known yet.
    #[error(
        "allocations: node {node} has not been reported to Placement since the agent started; retry when it has"
    )]
    Unreported { node: NodeName },
    #[error(
        "allocations: the flavor asks for {asked} of {class}, {found} are allocated; allocate all of them, or the guest would lack devices"
    )]
    NotAllocated {
        /// The class, or `PCI devices` for aliases.
        class: String,
        asked: u64,
        found: u64,
    },
    /// The allocations have too few network functions for the direct ports, or the host no longer has the functions.
    #[error(
        "allocations: {asked} ports need a network function (SRIOV_NET_VF or CUSTOM_SRIOV_NET_PF), and this host has {found} of those that are allocated; \
         a port of physical network {physical_network} has none"
    )]
    NoFunction {
        /// That of the first port without a function.
        physical_network: String,
        asked: usize,
        found: usize,
    },
    /// Allocated devices of the accelerator service without accelerator requests.
    #[error(
        "allocations: {held} of the accelerator service's devices are allocated ({class}), and accelerator_requests names {requests}; \
         request such a device with a device profile (--device-profile, or accel:device_profile in the flavor), not with \
         flavor.extra_specs.resources:{class}"
    )]
    MissingRequests {
        /// The first such class.
        class: ResourceClass,
        held: u64,
        requests: u64,
    },
    /// The allocation on a provider cannot be satisfied.
    #[error("allocations.{provider}.{class}: {reason}")]
    Allocation {
        provider: ProviderUuid,
        class: ResourceClass,
        reason: String,
    },
    #[error(transparent)]
    Fit(#[from] FitError),
    /// An interface's network or bridge is missing.
    #[error("networks: {} is not available on this host: {}", source_of(&.0.source), .0.reason)]
    NoLink(NoLink),
    /// The host cannot give the guest the devices of its machine.
    #[error(transparent)]
    Capability(#[from] MissingCapability),
    /// The driver cannot tell whether the networks exist.
    #[error("the host's networks cannot be read: {0}")]
    Links(#[source] GuestError),
    #[error("the host cannot be observed: {0}")]
    Observe(#[from] ObserveError),
    #[error(transparent)]
    Guests(#[from] GuestsError),
}

/// The cause of a failed build, from the sender's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildFault {
    /// The body is wrong: every host will refuse it.
    Body,
    /// This host has no room now. Another host may have.
    NoRoom,
    /// A temporary failure: the same request may be sent again.
    Later,
    /// The instance exists already, or the journal cannot be written.
    Guests,
}

impl BuildError {
    pub fn field(field: impl Into<String>, reason: impl ToString) -> Self {
        Self::Field {
            field: field.into(),
            reason: reason.to_string(),
        }
    }

    /// The cause, from the sender's point of view.
    #[must_use]
    pub fn fault(&self) -> BuildFault {
        match self {
            Self::Field { .. }
            | Self::Machine(_)
            | Self::Spec(_)
            | Self::Disks(_)
            | Self::Image(_)
            | Self::ConfigDrive(_)
            | Self::Request(_)
            | Self::NotAllocated { .. }
            | Self::MissingRequests { .. } => BuildFault::Body,
            Self::BuildsNotSupported
            | Self::NoSuchNode { .. }
            | Self::Fit(_)
            | Self::Allocation { .. }
            | Self::NoFunction { .. }
            | Self::NoLink(_)
            | Self::Capability(_) => BuildFault::NoRoom,
            Self::Unreported { .. } | Self::Observe(_) | Self::Links(_) => BuildFault::Later,
            Self::Guests(_) => BuildFault::Guests,
        }
    }

    /// How a caller reacts to this error.
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
        InterfaceSource::Port(port) => format!("the port {}", port.id()),
    }
}

fn listed(nodes: &[NodeName]) -> String {
    let names: Vec<_> = nodes.iter().map(NodeName::as_str).collect();
    names.join(", ")
}
