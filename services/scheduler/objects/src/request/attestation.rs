//! [`Attestations`]: the trust levels of the compute nodes, for `TrustedFilter` of the scheduler.
//!
//! An attestation service of the operator measures the software of each node and writes the trust level of the node to a
//! file. The conductor reads the file and puts its content into the scheduler's request, because the scheduler itself
//! reads no files.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The attestations of all nodes at the time of a request, or the reason why they are not available.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attestations(AttestationLookup);

#[derive(Debug, Clone, PartialEq)]
enum AttestationLookup {
    /// The attestations, by the node's hypervisor hostname.
    Available(Arc<BTreeMap<String, Attestation>>),
    Unavailable {
        reason: Arc<str>,
    },
}

impl Default for AttestationLookup {
    fn default() -> Self {
        Self::Available(Arc::default())
    }
}

/// The attestation service's last statement about a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Attestation {
    /// The trust level: a name that the attestation service defines, usually `trusted` or `untrusted`.
    pub trust_level: String,
    /// Set if the attestation is too old to be trusted; `None` while it is valid.
    pub expired: Option<AttestationExpiry>,
}

/// The age and the validity of an attestation that is no longer valid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttestationExpiry {
    /// The age of the attestation in seconds; negative if its timestamp is in the future.
    pub age_s: f64,
    /// The age in seconds up to which an attestation is valid.
    pub validity_s: f64,
}

impl Attestations {
    /// The attestations, by the node's hypervisor hostname.
    #[must_use]
    pub fn new(by_node: BTreeMap<String, Attestation>) -> Self {
        Self(AttestationLookup::Available(Arc::new(by_node)))
    }

    /// Attestations that could not be read. The filter then rejects each node of a request that requires trust.
    #[must_use]
    pub fn unavailable(reason: &str) -> Self {
        let reason = reason.into();
        Self(AttestationLookup::Unavailable { reason })
    }

    /// The attestation of the node with this hypervisor hostname; `None` if the node was never attested.
    ///
    /// Errors: the reason why no attestations are available.
    pub fn of_node(&self, node: &str) -> Result<Option<&Attestation>, &str> {
        match &self.0 {
            AttestationLookup::Available(by_node) => Ok(by_node.get(node)),
            AttestationLookup::Unavailable { reason } => Err(reason),
        }
    }
}
