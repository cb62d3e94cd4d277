//! Bodies of the conductor's own API (`/v1/guests`): boot requests and their progress.
//!
//! Callers: the conductor's router and its client (`berth guest create`, `delete`). Unknown keys in requests are refused, in
//! responses ignored.

use std::collections::BTreeMap;

use berth_model::DesiredPower;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::guest::{ConfigDriveBody, FlavorBody, ImageBody, ImageComing, KernelBody, NetworkBody};
use crate::neutron::PortResourceRequest;

/// The API version, `api` in each response.
pub const API: &str = "berth/1";

/// POST /v1/guests. Repeating the same body is safe; another body with the same UUID is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateGuest {
    /// The instance's UUID. By default the conductor chooses one; then the request cannot be repeated safely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Its name: 1 to 240 bytes of printable characters without `/`, with no blanks at the ends, and not `.` or `..`.
    pub name: String,
    /// The project that pays, 1 to 255 characters; none: `berth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The requesting user, 1 to 255 characters; default `berth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The flavor: size, requirements and placement on the host.
    pub flavor: FlavorBody,
    /// The image its root disk lies over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageBody>,
    /// A kernel on the host to boot directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelBody>,
    /// Its interfaces in their order, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkBody>,
    /// The ports of the network service that it gets, after `networks`; at most 64 in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_networks: Vec<RequestedNetwork>,
    /// The security groups of the ports that are created; by default the project's group `default`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<Uuid>,
    /// The device profile for its accelerators; the same as the extra spec `accel:device_profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_profile: Option<String>,
    /// The requested host; default any. Filters still apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The requested node; default any. Filters still apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The requested availability zone; default any. `ZONE:HOST`, `ZONE:HOST:NODE` and `ZONE::NODE` force a host
    /// or node without filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_hosts: Vec<String>,
    /// Scheduler hints: `group`, `same_host`, `different_host`, `query` and others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scheduler_hints: BTreeMap<String, Vec<String>>,
    /// The content of the config drive; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<ConfigDriveBody>,
    /// The desired power state.
    #[serde(default)]
    pub power: DesiredPower,
}

/// A port that a guest gets: an existing one, or a new one in a network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedNetwork {
    /// The network in which a port is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// An existing port of the project. It is unbound, not deleted, with the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Uuid>,
    /// The address of a new port; by default the network service chooses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_ip: Option<String>,
    /// The tenant's tag of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The physical network of an existing port that needs a network function (SR-IOV): the guest gets one of a network card
    /// that is connected to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_network: Option<String>,
    /// What an existing port needs from Placement, as the network service reports it: a minimum bandwidth or packet rate (QoS).
    #[serde(default, skip_serializing_if = "PortResourceRequest::is_empty")]
    pub resource_request: PortResourceRequest,
    /// The kind of such a port.
    #[serde(default, skip_serializing_if = "FunctionVnicType::is_direct")]
    pub vnic_type: FunctionVnicType,
    /// Whether such a port needs a trusted function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
}

/// The `binding:vnic_type` of a port that needs a function of a network card (SR-IOV).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionVnicType {
    /// A virtual function that the guest drives.
    #[default]
    Direct,
    /// A macvtap of a virtual function that the host drives.
    Macvtap,
    /// A whole network card.
    DirectPhysical,
}

impl FunctionVnicType {
    /// The kind of a port with this `binding:vnic_type`; `None` for other ports.
    #[must_use]
    pub fn of(vnic_type: &str) -> Option<Self> {
        let all = [Self::Direct, Self::Macvtap, Self::DirectPhysical];
        all.into_iter().find(|kind| kind.as_str() == vnic_type)
    }

    /// The word in Neutron's API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Macvtap => "macvtap",
            Self::DirectPhysical => "direct-physical",
        }
    }

    fn is_direct(&self) -> bool {
        *self == Self::Direct
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestsShown {
    /// Name and version of the protocol ([`API`]).
    pub api: String,
    /// The guests, by UUID.
    pub guests: Vec<GuestShown>,
    /// Guests with unreadable records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableShown>,
}

/// A guest with an invalid record in the conductor's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableShown {
    /// The UUID in the journal.
    pub uuid: String,
    /// The problem, in one sentence.
    pub reason: String,
}

/// One guest: GET /v1/guests/{uuid}, and the response to changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestShown {
    /// Name and version of the protocol ([`API`]).
    pub api: String,
    pub uuid: Uuid,
    pub name: String,
    /// `building`, `active`, `failing` (an attempt is being undone), `error` or `deleting`.
    pub status: String,
    /// Why it is in error, failing or blocked; null if nothing is wrong.
    pub fault: Option<String>,
    /// The node it is on or being built on; null if none.
    pub node: Option<String>,
    /// How far its image is, while that is coming onto the node; null: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageComing>,
    /// The project that pays.
    pub project_id: String,
    pub user_id: String,
    pub flavor: FlavorBody,
    pub device_profile: Option<String>,
    pub accelerator_requests: Vec<Uuid>,
    /// Each step of each attempt, in order.
    pub steps: Vec<BootStepShown>,
}

/// One step of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootStepShown {
    /// The attempt, from 1 on.
    pub attempt: u32,
    /// `claim`, `arqs`, `bind`, `ports`, `port_binding` or `build`.
    pub step: String,
    /// `begun`, `done`, `undoing` or `undone`.
    pub state: String,
}

/// GET /v1/guests/{uuid}/scheduling: the scheduling decisions for a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulingShown {
    /// Name and version of the protocol ([`API`]).
    pub api: String,
    /// The stored decisions, oldest first.
    pub decisions: Vec<DecisionShown>,
}

/// One decision of the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionShown {
    /// When, as `2026-11-23T07:56:44Z`.
    pub created_at: String,
    /// The stored explanation: `berth_scheduler`'s `Explanation`.
    pub explanation: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootRefusal {
    /// Name and version of the protocol ([`API`]).
    pub api: String,
    pub error: RefusedDetail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDetail {
    pub code: String,
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn the_least_that_can_be_asked_for_travels_without_more() {
        let text = r#"{"name":"a","flavor":{"name":"f","vcpus":1,"ram_mb":64,"disk_gb":0,"ephemeral_gb":0},"power":"running"}"#;
        let asked: CreateGuest = decode(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(encode(&asked)).unwrap(), text);
    }

    #[test]
    fn a_key_that_nobody_knows_is_named() {
        let text = r#"{"name":"a","flavor":{"name":"f","vcpus":1,"ram_mb":64},"profile":"p"}"#;
        let error = decode::<CreateGuest>(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("profile"), "{error}");
    }
}
