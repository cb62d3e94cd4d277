//! What an attestation service says of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Trust levels by node name, as they stand when a request is made.
///
/// This is the interface to attestation: who makes the request asks the service (or what it keeps of its answers) and hands over
/// what is still valid; the filter itself asks nobody. A level is whatever word the service has, `trusted` and `untrusted` mostly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attestations(Arc<BTreeMap<String, String>>);

impl Attestations {
    /// By node name.
    #[must_use]
    pub fn new(by_node: BTreeMap<String, String>) -> Self {
        Self(Arc::new(by_node))
    }

    /// The level of a node; `unknown` where it was never attested, or too long ago.
    #[must_use]
    pub fn level(&self, node: &str) -> &str {
        self.0.get(node).map_or("unknown", String::as_str)
    }
}
