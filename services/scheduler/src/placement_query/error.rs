//! The reasons for which a request is refused before Placement is called.

use crate::request::{NumaRequestError, PciAliasError};
use crate::text::shortened;

/// The maximum number of zones in a sentence.
const ZONES: usize = 20;

/// A request that no host can satisfy, or that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementQueryError {
    /// `[scheduler] placement_aggregate_required_for_tenants` is set, and the project has no aggregate.
    #[error(
        "no aggregate has filter_tenant_id for project {}, and each project needs one",
        project_id.as_deref().unwrap_or("(none)")
    )]
    NoTenantAggregate { project_id: Option<String> },
    /// The request has no image.
    #[error(
        "the request has no image; one that is booted from a volume has the image properties of the volume, be there none"
    )]
    NoImage,
    /// Flavor and image have different values.
    #[error("the flavor has {spec}={flavor}, and the image has {property}={image}")]
    Conflict {
        spec: String,
        flavor: String,
        property: String,
        image: String,
    },
    /// A value that is not allowed.
    #[error("{name} should be one of {}, and is {value}", words.join(", "))]
    Unknown {
        /// The extra spec; an image property may have set the value instead.
        name: String,
        value: String,
        words: Vec<&'static str>,
    },
    /// A combination of TPM model and version that does not exist.
    #[error("hw:tpm_model tpm-crb needs hw:tpm_version 2.0")]
    TpmCrbNeedsVersion2,
    /// Memory encryption requires an image property.
    #[error("hw:mem_encryption needs an image with {property}={wanted}, and this one has {has}")]
    MemoryEncryptionNeeds {
        property: &'static str,
        wanted: &'static str,
        has: String,
    },
    /// A CPU policy or mask is invalid.
    #[error(transparent)]
    Cpus(#[from] NumaRequestError),
    /// The flavor demands a link group for an alias that it does not request.
    #[error(transparent)]
    Aliases(#[from] PciAliasError),
    /// A request for devices of several kinds cannot be expressed as a request group.
    #[error(
        "the PCI alias {alias} has {specs} kinds of devices; with pci_in_placement it may have one"
    )]
    PciSpecs {
        alias: String,
        /// The number of kinds.
        specs: usize,
    },
    /// The number of requested devices is out of range.
    #[error("the PCI alias {alias} asks for {count} devices; should be from 1 to {most}")]
    PciCount {
        alias: String,
        count: i64,
        most: i64,
    },
    /// Two request groups have the same suffix.
    #[error("two request groups have the suffix {suffix}")]
    SuffixTwice { suffix: String },
    /// The requested zone does not exist.
    #[error(
        "there is no availability zone {}; there {}",
        shortened(availability_zone),
        listed(zones)
    )]
    NoSuchZone {
        availability_zone: String,
        /// The existing zones, sorted.
        zones: Vec<String>,
    },
    /// The requested host or node does not exist.
    #[error(
        "there is no compute node with host {} and node {}",
        host.as_deref().unwrap_or("(any)"),
        node.as_deref().unwrap_or("(any)")
    )]
    NoSuchHost {
        host: Option<String>,
        node: Option<String>,
    },
}

/// `is a`, `are a, b`, `are a, b and 3 more`.
fn listed(zones: &[String]) -> String {
    let verb = if zones.len() == 1 { "is" } else { "are" };
    let named: Vec<_> = zones.iter().take(ZONES).map(|it| shortened(it)).collect();
    let named = named.join(", ");
    match zones.len().saturating_sub(ZONES) {
        0 => format!("{verb} {named}"),
        more => format!("{verb} {named} and {more} more"),
    }
}
