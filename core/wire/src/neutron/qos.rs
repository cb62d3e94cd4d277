//! QoS policies.

use serde::{Deserialize, Serialize};

/// A QoS policy with its rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosPolicyRecord {
    #[serde(default)]
    pub rules: Vec<QosRuleRecord>,
}

impl QosPolicyRecord {
    /// Whether it guarantees a bandwidth or packet rate, so that a port with it needs resources from Placement.
    #[must_use]
    pub fn guarantees_rates(&self) -> bool {
        let guarantees = ["minimum_bandwidth", "minimum_packet_rate"];
        let mut rules = self.rules.iter();
        rules.any(|rule| guarantees.contains(&rule.kind.as_str()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosRuleRecord {
    /// `bandwidth_limit`, `minimum_bandwidth`, `minimum_packet_rate` and others.
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosPolicyDocument {
    pub policy: QosPolicyRecord,
}
