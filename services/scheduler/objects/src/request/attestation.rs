//! What was attested of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The attested trust levels of the nodes when a request is made.
///
/// The caller queries the attestation service and passes the result; the filter queries nothing. A level is a name that
/// the service defines, usually `trusted` or `untrusted`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Attestations(AttestedNodes);

#[derive(Debug, Clone, PartialEq)]
enum AttestedNodes {
    These(Arc<BTreeMap<String, Attestation>>),
    Nothing(Arc<str>),
}

impl Default for AttestedNodes {
    fn default() -> Self {
        Self::These(Arc::default())
    }
}

/// What was attested of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Attestation {
    /// The name of the trust level.
    pub trust_level: String,
    /// Seconds since then, and for how many it holds; none: it holds.
    pub expired: Option<AttestationExpiry>,
}

/// An attestation that is too old.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttestationExpiry {
    /// Seconds since it was made.
    pub age_s: f64,
    /// The validity of an attestation, in seconds.
    pub holds_s: f64,
}

impl Attestations {
    #[must_use]
    pub fn new(by_node: BTreeMap<String, Attestation>) -> Self {
        Self(AttestedNodes::These(Arc::new(by_node)))
    }

    /// Nothing is known, for this reason: no node is trusted.
    #[must_use]
    pub fn unknown(why: &str) -> Self {
        Self(AttestedNodes::Nothing(why.into()))
    }

    /// What was attested of a node; none: nothing was.
    pub fn of(&self, node: &str) -> Result<Option<&Attestation>, &str> {
        match &self.0 {
            AttestedNodes::These(by_node) => Ok(by_node.get(node)),
            AttestedNodes::Nothing(why) => Err(why),
        }
    }
}
