//! Devices as they travel over the admin API.

use berth_model::NodeName;
use berth_virt::{DeviceOwner, OfferedDevice, OfferedHandle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admin::body::API;
use crate::device::act::{Acted, Risk};
use crate::device::condition;
use crate::device::devices::{Known, Seen};
use crate::device::name::Named as _;

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
    /// Why it goes to nobody.
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

impl From<Acted> for DeviceActed {
    fn from(acted: Acted) -> Self {
        Self {
            api: API.to_owned(),
            devices: acted.devices,
            text: acted.text,
        }
    }
}

/// Why a device of the accelerator service is not free before that said so.
const NO_WORD: &str = "the accelerator service has not said yet whether it is clean";

/// All of them; of a name: those it means. `awaits`: whether the accelerator service will say of each node what it has to say.
pub(super) fn bodies(known: &Known, awaits: bool, name: Option<&str>) -> Vec<DeviceBody> {
    let name = name.map(|name| name.trim().to_ascii_lowercase());
    let mut bodies = Vec::new();
    for (node, seen) in &known.seen {
        for device in &seen.devices {
            for handle in &device.handles {
                let own = handle.name();
                let meant = name
                    .as_ref()
                    .is_none_or(|name| *name == own || *name == device.address.to_string());
                if meant {
                    bodies.push(body(known, awaits, node, seen, device, handle));
                }
            }
        }
    }
    bodies
}

fn body(
    known: &Known,
    awaits: bool,
    node: &NodeName,
    seen: &Seen,
    device: &OfferedDevice,
    handle: &OfferedHandle,
) -> DeviceBody {
    let name = handle.name();
    let register = &known.register;
    let quarantine = register.quarantines.get(&name);
    let held = register.held.get(&name).or_else(|| seen.used.get(&name));
    let advice = known.advice(node);
    let bound = advice.and_then(|advice| advice.holders.get(&name));
    let unclean = advice.is_some_and(|advice| {
        let mut unclean = advice.unclean.iter();
        unclean.any(|it| it.name == name && register.cleaned.get(&name) != Some(&it.releases))
    });
    let is_unsaid = awaits && advice.is_none() && device.owner == DeviceOwner::Accelerator;
    let mut laid_over = device.clone();
    condition::overlay(node, &mut laid_over, register);
    let unfit = condition::reason(&laid_over, register);
    let (state, reason) = match (held, quarantine, &unfit, bound) {
        (Some(_), ..) => ("held", unfit.clone()),
        _ if register.cleaning.contains(&name) => ("resetting", None),
        (None, Some(why), ..) => ("quarantined", Some(why.reason.clone())),
        (None, None, Some(reason), _) => ("unfit", Some(reason.clone())),
        (None, None, None, Some(_)) => ("bound", None),
        (None, None, None, None) if unclean => ("unclean", None),
        (None, None, None, None) if is_unsaid => ("unclean", Some(NO_WORD.to_owned())),
        (None, None, None, None) => ("free", None),
    };
    let (attach_type, mdev_type) = match handle {
        OfferedHandle::Function(_) => ("PCI", None),
        OfferedHandle::Mdev { mdev_type, .. } => ("MDEV", Some(mdev_type.clone())),
    };
    DeviceBody {
        node: node.to_string(),
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
        provider: device.provider_name(node).to_string(),
        resource_class: device.class.to_string(),
        state: state.to_owned(),
        reason,
        guest: held
            .copied()
            .or_else(|| bound.and_then(|holder| holder.guest))
            .map(|guest| guest.to_string()),
        accelerator_request: bound.map(|holder| holder.arq.to_string()),
        quarantine: quarantine.map(|why| QuarantineBody {
            since: humantime::format_rfc3339_seconds(why.since).to_string(),
            by: why.by.as_str().to_owned(),
            reason: why.reason.clone(),
        }),
        name,
    }
}
