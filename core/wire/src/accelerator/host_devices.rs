//! The agent's device report and its answer: PUT /internal/v1/hosts/{host}/devices. Berth's own API, not Cyborg's.
//!
//! The report lists all devices of the host, never a difference, and the answer is the service's whole state of that host, so that
//! either side can be restored from the other.

use berth_model::{ArqUuid, ConsumerUuid};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{AttachHandleInfoBody, GroupBody};

/// The body: every device of the host that the accelerator service is to offer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostDevicesReport {
    pub devices: Vec<ReportedHostDevice>,
    /// The guests that the host has or is building. If given, a request that is bound here for another guest is deleted
    /// after the service's grace time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<Vec<Uuid>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedHostDevice {
    /// The name, unique on the host, such as its PCI address. It identifies the device.
    pub name: String,
    /// `GPU`, `FPGA`, `NIC`, ...
    #[serde(rename = "type")]
    pub device_type: String,
    /// The vendor's id, `10de` for instance.
    pub vendor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Standard board information: JSON as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std_board_info: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_board_info: Option<String>,
    /// The parts that are offered.
    pub deployables: Vec<HostDeployable>,
}

/// Whether a deployable can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    #[default]
    Ok,
    /// Usable, but needs an operator's attention.
    Degraded,
    /// Not usable: no requests are bound to it.
    Bad,
}

impl Health {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Bad => "bad",
        }
    }
}

/// One deployable: one resource provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostDeployable {
    /// The name, which is also its provider's.
    pub name: String,
    /// The UUID of its resource provider. It identifies the deployable.
    pub rp_uuid: Uuid,
    /// The class of its inventory: `PGPU`, `VGPU`, `FPGA`, `CUSTOM_...`.
    pub resource_class: String,
    #[serde(default)]
    pub traits: Vec<String>,
    /// Further attributes, keys and values.
    #[serde(default)]
    pub attributes: GroupBody,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_name: Option<String>,
    /// The NUMA node of the host that it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Whether it is usable.
    #[serde(default)]
    pub health: Health,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_reason: Option<String>,
    /// Whether the host can program it on request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmable: bool,
    /// The handles that guests get; their number is the offered amount.
    pub attach_handles: Vec<HostAttachHandle>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostAttachHandle {
    /// The UUID. By default it is derived from the provider, the type and the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// The attach handle's type: `PCI`, `MDEV` or `TEST_PCI`.
    pub attach_type: String,
    pub attach_info: AttachHandleInfoBody,
    /// Why it cannot be assigned now, for example a missing driver or quarantine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Whether the host cleans it after each use. A released handle is not assigned again
    /// until [`HostAttachHandle::cleaned`] confirms it.
    #[serde(default)]
    pub scrubbed: bool,
    /// The last [`KnownAttachHandle::releases`] after which the host cleaned it and verified the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<i64>,
}

/// The answer: the service's whole state of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDevices {
    /// The devices, including vanished ones that are still held.
    pub devices: Vec<KnownDevice>,
    /// The parts of the report that were rejected. The rest was stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_taken: Vec<NotTaken>,
    /// The change marker before the answer was read: [`HostChanges::changes`]. Missing if the service
    /// has no long polling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
}

/// The answer to GET /internal/v1/hosts/{host}/changes?after=CHANGES&wait=SECONDS. It is sent when an operator changes
/// the desired state of the host's devices, or after the wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostChanges {
    /// The current change marker, an opaque text. If it differs from the given one, a report would
    /// get a different answer.
    pub changes: String,
}

/// A rejected part of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTaken {
    /// The device's name, as reported.
    pub name: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// A device as stored by the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDevice {
    /// Its UUID in the API.
    pub uuid: Uuid,
    /// Its name, as reported.
    pub name: String,
    /// `enabled`, or `maintaining` if an operator disabled it: its inventory must then be reserved.
    pub status: String,
    /// Whether it was missing in the last report and stays because a request holds a handle of it.
    pub vanished: bool,
    /// The parts that are offered.
    pub deployables: Vec<KnownDeployable>,
}

/// A deployable as stored by the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDeployable {
    /// Its UUID in the API.
    pub uuid: Uuid,
    /// Its provider in Placement.
    pub rp_uuid: Uuid,
    /// Whether it was missing in the last report and is still held.
    pub vanished: bool,
    /// Whether the provider was missing in Placement: its writer should check and create it again.
    #[serde(default)]
    pub provider_missing: bool,
    /// The handles that guests get.
    pub attach_handles: Vec<KnownAttachHandle>,
}

/// An attach handle as stored by the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAttachHandle {
    pub uuid: Uuid,
    /// The attach handle's type: `PCI`, `MDEV` or `TEST_PCI`.
    pub attach_type: String,
    pub attach_info: AttachHandleInfoBody,
    /// Whether it was missing in the last report and is still held.
    pub vanished: bool,
    /// The number of releases. A handle that the host cleans is free only if it was cleaned after the last release. A
    /// new one is unclean, because its previous user is unknown.
    #[serde(default)]
    pub releases: i64,
    /// Whether it was released and is not clean yet: the host must clean it and report `cleaned` = `releases`.
    #[serde(default)]
    pub unclean: bool,
    /// The request that holds it.
    #[serde(default)]
    pub arq_uuid: Option<Uuid>,
    /// The guest that the request is bound for.
    #[serde(default)]
    pub instance_uuid: Option<Uuid>,
}

impl KnownAttachHandle {
    #[must_use]
    pub fn holder(&self) -> Option<(ArqUuid, Option<ConsumerUuid>)> {
        Some((self.arq_uuid?.into(), self.instance_uuid.map(Into::into)))
    }
}
