//! Devices.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Link;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBody {
    pub uuid: Uuid,
    /// `GPU`, `FPGA`, `NIC`, ...
    #[serde(rename = "type")]
    pub device_type: String,
    pub vendor: String,
    #[serde(default)]
    pub model: Option<String>,
    /// What every board says of itself: a text that holds JSON.
    #[serde(default)]
    pub std_board_info: Option<String>,
    /// What the vendor adds.
    #[serde(default)]
    pub vendor_board_info: Option<String>,
    /// The host it is in.
    pub hostname: String,
    /// `enabled` or `maintaining`; from 2.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Where the document is.
    #[serde(default)]
    pub links: Vec<Link>,
    /// When it was seen first.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was changed last.
    #[serde(default)]
    pub updated_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceList {
    pub devices: Vec<DeviceBody>,
}
