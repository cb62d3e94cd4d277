//! PCI requests.

mod alias;

use std::collections::BTreeMap;

pub use alias::{
    PCI_ALIAS_SPEC, PciAlias, PciAliasError, SAME_LINK_GROUP_SPEC, aliases_of_one_link_group,
};

/// A number of devices of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PciRequest {
    /// How many; of less than 1 no host has any.
    pub count: i64,
    /// A device matches if it has all values of one of these: `vendor_id`, `product_id`, `dev_type`, ...
    pub spec: Vec<BTreeMap<String, String>>,
    /// The prefix of its request groups in Placement: `REQUEST_ID-N`.
    pub request_id: Option<String>,
    pub origin: PciRequestOrigin,
    /// How near to the memory and the CPUs.
    pub numa_policy: NumaAffinityPolicy,
}

/// Whether a flavor or a port requests the device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PciRequestOrigin {
    /// The flavor, by this alias.
    Flavor(String),
    #[default]
    Port,
}

/// The NUMA affinity of devices (`hw:pci_numa_affinity_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumaAffinityPolicy {
    /// In the same cell.
    Required,
    /// In the same cell, or in an unknown cell.
    #[default]
    Legacy,
    /// The same cell first, else any.
    Preferred,
    /// At the same socket.
    Socket,
}

impl NumaAffinityPolicy {
    /// All, by Nova's names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("required", Self::Required),
        ("legacy", Self::Legacy),
        ("preferred", Self::Preferred),
        ("socket", Self::Socket),
    ];
}
