//! JSON bodies of the device routes.

use berth_agent_devices::{ActionReport, DeviceStatus, Risk};
use berth_virt::{DeviceOwner, OfferedHandle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::API;

/// Response of GET /v1/devices: all devices that this host offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostDeviceList {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// The devices, sorted by node and address.
    pub devices: Vec<HostDeviceBody>,
}

/// Response of GET /v1/devices/{name}: the devices at one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDocument {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// The device; for the address of a card, every device that the card offers.
    pub devices: Vec<HostDeviceBody>,
}

/// A device that can be assigned to a guest: a PCI function or a mediated device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostDeviceBody {
    /// Name of the device: its PCI address, or the UUID of a mediated device.
    pub name: String,
    /// Name of the node that offers the device.
    pub node: String,
    /// How the device is attached: `PCI` or `MDEV`.
    pub attach_type: String,
    /// PCI address of the card, or of the function of the card.
    pub address: String,
    /// Type of a mediated device; null for a PCI function.
    pub mdev_type: Option<String>,
    /// Service that owns the device: `compute` or `accelerator`.
    pub owner: String,
    /// Kind of the device: `GPU`, `FPGA`, `NIC`, ...
    #[serde(rename = "type")]
    pub device_type: String,
    /// PCI vendor and product ID, for example `10de:1eb8`.
    pub product: String,
    /// Model name of the device, if known.
    pub model: Option<String>,
    /// NUMA node of the host to which the device is attached.
    pub numa_node: Option<u32>,
    /// Name of the device's resource provider in Placement.
    pub provider: String,
    /// Resource class of the device's inventory.
    pub resource_class: String,
    /// State of the device: `free`, `held`, `bound`, `unclean`, `resetting`, `quarantined` or `unfit`.
    pub state: String,
    /// Why the device is withheld from instances.
    pub reason: Option<String>,
    /// UUID of the guest that uses the device.
    pub guest: Option<String>,
    /// UUID of the accelerator request that the device is bound to.
    pub accelerator_request: Option<String>,
    /// Details of the quarantine; null if the device is not in quarantine.
    pub quarantine: Option<QuarantineBody>,
}

/// Details of a device's quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuarantineBody {
    /// Time at which the quarantine started.
    pub since: String,
    /// Who started the quarantine: `agent` or `operator`.
    pub by: String,
    /// Reason of the quarantine, as recorded.
    pub reason: String,
}

/// Request body of POST /v1/devices/{name}/reset, `.../quarantine` and `.../release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceAction {
    /// Reason of a quarantine; required for `quarantine` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// If true, only reports what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Risks that the caller accepts, for `release` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_risk: Vec<Risk>,
}

/// Response of a reset, a quarantine or a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceActionResult {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// Names of the affected devices.
    pub devices: Vec<String>,
    /// What was done, or what would be done in a dry run.
    pub text: String,
}

impl From<ActionReport> for DeviceActionResult {
    fn from(acted: ActionReport) -> Self {
        Self {
            api: API.to_owned(),
            devices: acted.devices,
            text: acted.text,
        }
    }
}

impl From<DeviceStatus> for HostDeviceBody {
    fn from(status: DeviceStatus) -> Self {
        let device = status.device;
        let (attach_type, mdev_type) = match status.handle {
            OfferedHandle::Function(_) => ("PCI", None),
            OfferedHandle::Mdev { mdev_type, .. } => ("MDEV", Some(mdev_type)),
        };
        Self {
            name: status.name,
            attach_type: attach_type.to_owned(),
            address: device.address.to_string(),
            mdev_type,
            owner: match device.owner {
                DeviceOwner::Compute => "compute".to_owned(),
                DeviceOwner::Accelerator => "accelerator".to_owned(),
            },
            device_type: device.device_type.as_str().to_owned(),
            product: format!("{:04x}:{:04x}", device.vendor_id, device.product_id),
            model: device.model.clone(),
            numa_node: device.numa_node,
            provider: device.provider_name(&status.node).to_string(),
            resource_class: device.class.to_string(),
            node: status.node.to_string(),
            state: status.state.to_owned(),
            reason: status.reason,
            guest: status.guest.map(|guest| guest.to_string()),
            accelerator_request: status.arq.map(|arq| arq.to_string()),
            quarantine: status.quarantine.map(|why| QuarantineBody {
                since: humantime::format_rfc3339_seconds(why.since).to_string(),
                by: why.by.as_str().to_owned(),
                reason: why.reason,
            }),
        }
    }
}
