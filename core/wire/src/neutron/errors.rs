//! Neutron's error document.

use serde::{Deserialize, Serialize};

/// `{"NeutronError": {"type": "PortNotFound", "message": ..., "detail": ""}}`, the body of every error of Neutron itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeutronErrorDocument {
    #[serde(rename = "NeutronError")]
    pub error: NeutronErrorDetail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeutronErrorDetail {
    /// The name of the exception, such as `IpAddressGenerationFailure`.
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub detail: String,
}
