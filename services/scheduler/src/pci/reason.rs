//! Why a host's devices do not serve a request.

use serde::Serialize;

/// As JSON an object: `constraint`, and the values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "constraint", rename_all = "snake_case")]
pub enum PciReason {
    /// The host tells of no devices at all.
    #[error("it tells of no PCI devices")]
    NoPools,
    /// No allocation candidate is left that could be looked at.
    #[error("it has no allocation candidate left")]
    NoCandidates,
    /// The request asks for less than one device.
    #[error("{request} asks for {requested} devices, and should for 1 at least")]
    Count {
        /// The alias, or the request's id, or that it is a port's.
        request: String,
        requested: i64,
    },
    /// Not enough devices are left after a step.
    #[error("of the {requested} devices that {request} asks for it has {available}, {after}")]
    TooFew {
        /// The alias, or the request's id, or that it is a port's.
        request: String,
        requested: i64,
        /// Devices that are left.
        available: i64,
        after: PciStep,
    },
    /// Several pools are of one provider.
    #[error("provider {rp_uuid}, which {request} is allocated from, has several pools")]
    SplitProvider {
        /// The alias, or the request's id, or that it is a port's.
        request: String,
        rp_uuid: String,
    },
}

/// By what pools are narrowed, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PciStep {
    /// Vendor, product and tags are what a spec of the request says.
    Spec,
    /// Near enough to the instance's cells.
    NumaAffinity,
    /// No physical functions where none are asked for.
    PhysicalFunction,
    /// No vDPA devices where none are asked for.
    Vdpa,
    /// No devices that another host manages where none are asked for.
    RemoteManaged,
    /// Of the providers that Placement allocated from.
    Allocation,
    /// As migratable as the request says.
    LiveMigratable,
}

/// What the devices that are left are.
impl std::fmt::Display for PciStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Spec => "which are of its kind",
            Self::NumaAffinity => "which are near enough to the instance's NUMA cells",
            Self::PhysicalFunction => "which are no physical functions",
            Self::Vdpa => "which are no vDPA devices",
            Self::RemoteManaged => "which are not managed remotely",
            Self::Allocation => "which are of the providers that they are allocated from",
            Self::LiveMigratable => "which can be migrated as it says",
        })
    }
}
