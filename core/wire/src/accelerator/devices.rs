//! Devices.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::DocumentLink;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBody {
    pub uuid: Uuid,
    /// `GPU`, `FPGA`, `NIC`, ...
    #[serde(rename = "type")]
    pub device_type: String,
    pub vendor: String,
    #[serde(default)]
    pub model: Option<String>,
    /// Standard board information: JSON as text.
    #[serde(default)]
    pub std_board_info: Option<String>,
    #[serde(default)]
    pub vendor_board_info: Option<String>,
    /// The host of the device.
    pub hostname: String,
    /// `enabled` or `maintaining`; from 2.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Links to the document.
    #[serde(default)]
    pub links: Vec<DocumentLink>,
    /// When it was first reported.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default)]
    pub updated_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceList {
    pub devices: Vec<DeviceBody>,
}
