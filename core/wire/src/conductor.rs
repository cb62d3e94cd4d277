//! The bodies of the conductor's own API (`/v1/guests`): what is asked for, and how far it is.
//!
//! Callers: the conductor's router (answers), its client (`berth guest create`, `delete`). Bodies that ask refuse keys they do
//! not know; bodies that answer take more keys than they know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::guest::{
    ConfigDriveBody, FlavorBody, GuestPower, ImageBody, ImageComing, KernelBody, NetworkBody,
};

/// The API's version, `api` of each answer.
pub const API: &str = "berth/1";

/// POST /v1/guests. The same body again is the same guest; another body with its UUID is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateGuest {
    /// The instance's UUID; none: it gets one, and a request whose answer is lost cannot be repeated safely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    /// Its name: 1 to 240 bytes of printable characters without `/`, with no blanks at the ends, and not `.` or `..`.
    pub name: String,
    /// The project that pays, 1 to 255 characters; none: `berth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The user who asks, 1 to 255 characters; none: `berth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// How large it is, what else it asks of its host, and how it is placed there.
    pub flavor: FlavorBody,
    /// The image its root disk lies over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageBody>,
    /// A kernel of the host that it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelBody>,
    /// Its interfaces in their order, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkBody>,
    /// The device profile that its accelerators are asked for with; the same as the extra spec `accel:device_profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_profile: Option<String>,
    /// The host it is to be on; none: any. Filters are asked about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The node it is to be on; none: any. Filters are asked about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The availability zone it is to be in; none: any. `ZONE:HOST`, `ZONE:HOST:NODE` and `ZONE::NODE` force a host or node, about
    /// which no filter is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Hosts that it must not be on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_hosts: Vec<String>,
    /// What else the scheduler is told: `group`, `same_host`, `different_host`, `query` and others, each with its texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scheduler_hints: BTreeMap<String, Vec<String>>,
    /// What its config drive says; none: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<ConfigDriveBody>,
    /// Whether it should run.
    #[serde(default)]
    pub power: GuestPower,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestsShown {
    /// [`API`].
    pub api: String,
    /// The guests, by UUID.
    pub guests: Vec<GuestShown>,
    /// What is known of guests whose rows cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableShown>,
}

/// A guest whose rows in the conductor's journal say what no release writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableShown {
    /// Its UUID, as it is in the journal.
    pub uuid: String,
    /// What cannot be read of it, in one sentence.
    pub reason: String,
}

/// One guest: GET /v1/guests/{uuid}, and the answer to what was asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestShown {
    /// [`API`].
    pub api: String,
    pub uuid: Uuid,
    pub name: String,
    /// `building`, `active`, `failing` (an attempt is taken back), `error` or `deleting`.
    pub status: String,
    /// Why it is in error, failing or standing still; null: nothing is wrong.
    pub fault: Option<String>,
    /// The node it is on, or is being built on; null: it is on none.
    pub node: Option<String>,
    /// How far its image is, while that is coming onto the node; null: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageComing>,
    /// The project that pays.
    pub project_id: String,
    /// The user who asked.
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
    /// `claim`, `arqs`, `bind` or `build`.
    pub step: String,
    /// `begun`, `done`, `undoing` or `undone`.
    pub state: String,
}

/// GET /v1/guests/{uuid}/scheduling: why the guest went where it went, each time it was looked for a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulingShown {
    /// [`API`].
    pub api: String,
    /// The decisions that are still kept, the oldest first.
    pub decisions: Vec<DecisionShown>,
}

/// One decision of the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecisionShown {
    /// When, as `2026-11-23T07:56:44Z`.
    pub created_at: String,
    /// What was kept of it: `berth_scheduler`'s `Explanation`.
    pub explanation: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// [`API`].
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
