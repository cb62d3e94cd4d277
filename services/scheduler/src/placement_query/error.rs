//! Why Placement need not be asked.

use crate::request::NumaRequestError;
use crate::text::shortened;

/// So many zones are named.
const ZONES: usize = 20;

/// A request that no host can be right for, or that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementQueryError {
    /// `[scheduler] placement_aggregate_required_for_tenants`: the project has none.
    #[error(
        "no aggregate has filter_tenant_id for project {}, and each project needs one",
        project_id.as_deref().unwrap_or("(none)")
    )]
    NoTenantAggregate { project_id: Option<String> },
    /// The request is without an image.
    #[error(
        "the request has no image; one that is booted from a volume has the image properties of the volume, be there none"
    )]
    NoImage,
    /// Flavor and image say different things.
    #[error("the flavor has {spec}={flavor}, and the image has {property}={image}")]
    Conflict {
        spec: String,
        flavor: String,
        property: String,
        image: String,
    },
    /// A value that is none of those there are.
    #[error("{name} should be one of {}, and is {value}", words.join(", "))]
    Unknown {
        /// The extra spec, which an image property may have set in its place.
        name: String,
        value: String,
        words: Vec<&'static str>,
    },
    /// A TPM that there is not.
    #[error("hw:tpm_model tpm-crb needs hw:tpm_version 2.0")]
    TpmCrbNeedsVersion2,
    /// Encrypted memory needs something of the image that the image has not.
    #[error("hw:mem_encryption needs an image with {property}={wanted}, and this one has {has}")]
    MemoryEncryptionNeeds {
        property: &'static str,
        /// What it should be.
        wanted: &'static str,
        has: String,
    },
    /// CPU policies and masks.
    #[error(transparent)]
    Cpus(#[from] NumaRequestError),
    /// A device of several kinds cannot be asked for.
    #[error(
        "the PCI alias {alias} has {specs} kinds of devices; with pci_in_placement it may have one"
    )]
    PciSpecs {
        alias: String,
        /// How many it has.
        specs: usize,
    },
    /// No number of devices that a host could have.
    #[error("the PCI alias {alias} asks for {count} devices; should be from 1 to {most}")]
    PciCount {
        alias: String,
        /// How many it asks for.
        count: i64,
        /// How many it may.
        most: i64,
    },
    /// Two groups have one suffix.
    #[error("two request groups have the suffix {suffix}")]
    SuffixTwice { suffix: String },
    /// The zone that is asked for is not there.
    #[error(
        "there is no availability zone {}; there {}",
        shortened(availability_zone),
        listed(zones)
    )]
    NoSuchZone {
        availability_zone: String,
        /// Those that there are, by name.
        zones: Vec<String>,
    },
    /// The host that is asked for is not there.
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
