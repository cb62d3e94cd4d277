//! The reasons why a host's devices cannot serve a request.

use serde::Serialize;

/// Serialised as an object with `constraint` and the compared values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "constraint", rename_all = "snake_case")]
pub enum PciReason {
    /// The host reports no PCI devices.
    #[error("it reports no PCI devices")]
    NoPools,
    /// Filters have removed all allocation candidates.
    #[error("it has no allocation candidate left")]
    NoCandidates,
    /// The request is for less than one device.
    #[error("{request} asks for {requested} devices, and should for 1 at least")]
    Count {
        /// The alias, the request's id, or a note that the request is a port's.
        request: String,
        requested: i64,
    },
    /// A step leaves too few devices.
    #[error("of the {requested} devices that {request} asks for it has {available}, {after}")]
    TooFew {
        /// The alias, the request's id, or a note that the request is a port's.
        request: String,
        requested: i64,
        available: i64,
        after: PciStep,
    },
    /// An allocated provider has several pools, so the pool is ambiguous.
    #[error("provider {rp_uuid}, which {request} is allocated from, has several pools")]
    SplitProvider {
        /// The alias, the request's id, or a note that the request is a port's.
        request: String,
        rp_uuid: String,
    },
}

/// The steps that narrow the pools, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PciStep {
    /// Vendor, product and tags match a spec of the request.
    Spec,
    /// Near enough to the instance's NUMA cells.
    NumaAffinity,
    /// Not a physical function, unless requested.
    PhysicalFunction,
    /// Not a vDPA device, unless requested.
    Vdpa,
    /// Not a remotely managed device, unless requested.
    RemoteManaged,
    /// Of a provider from which Placement allocated.
    Allocation,
    /// Live-migratable as the request requires.
    LiveMigratable,
}

/// A relative clause about the remaining devices.
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
