//! Devices as they travel over the admin API.

use berth_agent_devices::{ActionReport, DeviceStatus, Risk};
use berth_virt::{DeviceOwner, OfferedHandle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::API;

/// GET /v1/devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceList {
    /// The API's version, `berth/1`.
    pub api: String,
    /// What guests can get, by node and address.
    pub devices: Vec<DeviceBody>,
}

/// GET /v1/devices/{name}.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDocument {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The device, or all that is offered of the card.
    pub devices: Vec<DeviceBody>,
}

/// What a guest can get: a function, or a mediated device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceBody {
    /// Its name: an address, or a mediated device's UUID.
    pub name: String,
    /// The node.
    pub node: String,
    /// `PCI` or `MDEV`.
    pub attach_type: String,
    /// The address of the card that it is, or is a part of.
    pub address: String,
    /// A mediated device's type.
    pub mdev_type: Option<String>,
    /// `compute` or `accelerator`.
    pub owner: String,
    /// `GPU`, `FPGA`, `NIC`, ...
    #[serde(rename = "type")]
    pub device_type: String,
    /// Vendor and product, `10de:1eb8` for instance.
    pub product: String,
    /// Its model, where that is known.
    pub model: Option<String>,
    /// The NUMA node of the host that it is at.
    pub numa_node: Option<u32>,
    /// The name of its provider in Placement.
    pub provider: String,
    /// The class of its inventory.
    pub resource_class: String,
    /// `free`, `held`, `bound`, `unclean`, `resetting`, `quarantined` or `unfit`.
    pub state: String,
    /// Why the device is withheld from instances.
    pub reason: Option<String>,
    /// The guest that has it.
    pub guest: Option<String>,
    /// The accelerator request that it is bound to.
    pub accelerator_request: Option<String>,
    /// Since when it is in quarantine, and by whom (`agent`, `operator`).
    pub quarantine: Option<QuarantineBody>,
}

/// A quarantine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuarantineBody {
    /// Since when.
    pub since: String,
    /// `agent` or `operator`.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// POST /v1/devices/{name}/reset, `.../quarantine` and `.../release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceAction {
    /// Why; a quarantine needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Risks that are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_risk: Vec<Risk>,
}

/// The answer to those.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceActed {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The devices, by name.
    pub devices: Vec<String>,
    /// What was done, or would be.
    pub text: String,
}

impl From<ActionReport> for DeviceActed {
    fn from(acted: ActionReport) -> Self {
        Self {
            api: API.to_owned(),
            devices: acted.devices,
            text: acted.text,
        }
    }
}

impl From<DeviceStatus> for DeviceBody {
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
