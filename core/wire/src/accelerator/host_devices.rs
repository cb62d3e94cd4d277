//! What a host's agent reports, and what it is told: PUT /internal/v1/hosts/{host}/devices.
//!
//! The body is the whole list of the host's devices, never a difference; the answer is the whole list of what the service
//! knows of that host, so that either side can be lost and made again from the other. Ours, not Cyborg's.

use berth_model::{ArqUuid, ConsumerUuid};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{AttachHandleInfoBody, GroupBody};

/// The body: every device of the host that the accelerator service is to offer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostDevices {
    pub devices: Vec<HostDevice>,
    /// The guests that the host has or is building. Where it is given, a request that is bound here for a guest that is not
    /// among them is deleted once it has been bound for longer than the service's grace time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<Vec<Uuid>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostDevice {
    /// Its name, the only one of the host: its PCI address, for instance. A device is known again by it.
    pub name: String,
    /// `GPU`, `FPGA`, `NIC`, ...
    #[serde(rename = "type")]
    pub device_type: String,
    /// The vendor's id, `10de` for instance.
    pub vendor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A text that holds JSON: what every board says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std_board_info: Option<String>,
    /// What the vendor adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor_board_info: Option<String>,
    /// What of it is offered.
    pub deployables: Vec<HostDeployable>,
}

/// Whether a deployable can be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    #[default]
    Ok,
    /// It can, but an operator should look.
    Degraded,
    /// Nothing may be bound to it.
    Bad,
}

impl Health {
    /// The word of the API.
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
    /// Its name, which is its provider's too.
    pub name: String,
    /// Its provider in Placement. A deployable is known again by it.
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
    /// The host's NUMA node that it is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Whether it can be used.
    #[serde(default)]
    pub health: Health,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_reason: Option<String>,
    /// Whether its host programs it where that is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub programmable: bool,
    /// What guests get of it; the amount offered is their number.
    pub attach_handles: Vec<HostAttachHandle>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostAttachHandle {
    /// Its UUID. Without one it gets one that depends on the provider, the type and the place alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// `PCI`, `MDEV`, `TEST_PCI`.
    pub attach_type: String,
    pub attach_info: AttachHandleInfoBody,
    /// Why it may not be given to anybody now: its driver is missing, it is quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The host cleans it after each guest: once given back it goes to nobody until [`HostAttachHandle::cleaned`] says so.
    #[serde(default)]
    pub scrubbed: bool,
    /// The last [`KnownAttachHandle::releases`] after which the host cleaned it and saw that it is clean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaned: Option<i64>,
}

/// The answer: all that the service knows of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDevices {
    /// The devices, those that are gone but still held among them.
    pub devices: Vec<KnownDevice>,
    /// What of the report could not be taken, or not be done for it. The rest was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_taken: Vec<NotTaken>,
    /// Where the host's changes stood before the answer was read: [`HostChanges::changes`]. None where nobody can wait for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
}

/// The answer to GET /internal/v1/hosts/{host}/changes?after=CHANGES&wait=SECONDS, which comes when an operator changed what is
/// wanted of the host's devices, or after the wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostChanges {
    /// Where they stand now: a text to compare and to ask with, and nothing more. Another one than was asked with says that a
    /// report would be answered otherwise.
    pub changes: String,
}

/// Something about one device of a report that stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTaken {
    /// The device's name, as reported.
    pub name: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// A device as the service knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDevice {
    /// Its UUID in the API.
    pub uuid: Uuid,
    /// Its name, as reported.
    pub name: String,
    /// `enabled`, or `maintaining` where an operator disabled it: its inventory is to be reserved.
    pub status: String,
    /// Whether it was left out of the last report and stays because a request still holds a part of it.
    pub vanished: bool,
    /// What of it is offered.
    pub deployables: Vec<KnownDeployable>,
}

/// A deployable as the service knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDeployable {
    /// Its UUID in the API.
    pub uuid: Uuid,
    /// Its provider in Placement.
    pub rp_uuid: Uuid,
    /// Whether it was left out of the last report and is still held.
    pub vanished: bool,
    /// Whether Placement was seen without the provider: whoever writes it is to look, and to make it again.
    #[serde(default)]
    pub provider_missing: bool,
    /// What guests get of it.
    pub attach_handles: Vec<KnownAttachHandle>,
}

/// An attach handle as the service knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownAttachHandle {
    pub uuid: Uuid,
    /// `PCI`, `MDEV`, `TEST_PCI`.
    pub attach_type: String,
    pub attach_info: AttachHandleInfoBody,
    /// Whether it was left out of the last report and is still held.
    pub vanished: bool,
    /// A number that grows each time it is given back. A handle that the host cleans is free only when it was cleaned after
    /// the last time; a new one is unclean, for nobody knows who had it before.
    #[serde(default)]
    pub releases: i64,
    /// Whether it is given back and not clean yet: the host is to clean it, and to report `cleaned` as `releases`.
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
