//! What the agent says of its guests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// GET /v1/guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestList {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The guests, by UUID.
    pub guests: Vec<GuestBody>,
}

/// One guest: GET /v1/guests/{uuid}, and the answer to whatever was asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestBody {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name on the hypervisor.
    pub name: String,
    /// Its node.
    pub node: String,
    /// `building`, `active`, `stopped`, `paused`, `rescued`, `rescuing`, `unrescuing`, `rebuilding`, `failing`, `failed` or
    /// `deleting`.
    pub status: String,
    /// What the hypervisor has of it now: `running`, `paused`, `shut off` or `crashed`; null: it has none, or does not answer.
    #[serde(default)]
    pub state: Option<String>,
    /// Why it failed, why it went off by itself, or what it is held by; null: nothing is wrong.
    pub reason: Option<String>,
    /// What is to blame for a guest that failed, where another device of the host would not mend it: `image` (it cannot be used) or
    /// `host` (it cannot make the guest's disks); null: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blame: Option<String>,
    /// The host's CPUs that are its alone, in the grammar of `cpu_dedicated_set` (`2-3,8`); empty: none.
    #[serde(default)]
    pub dedicated_cpus: String,
    /// The host's NUMA cells that it is placed on, its own cell 0 first; empty: no NUMA placement.
    #[serde(default)]
    pub host_cells: Vec<u32>,
    /// How far its image is, while that is coming onto the host; null: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageComing>,
    /// Its accelerator requests.
    pub accelerator_requests: Vec<Uuid>,
    /// The devices that it has, in words.
    pub devices: Vec<String>,
    /// Its steps, in their order.
    pub steps: Vec<StepBody>,
}

/// An image that is coming onto a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageComing {
    /// `fetch` (its bytes come), `convert` (it is made flat) or `done`.
    pub stage: String,
    /// How many bytes of the stage are done.
    pub bytes: u64,
    /// Of how many; null: nobody knows.
    pub total: Option<u64>,
}

/// One step of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepBody {
    /// `bind`, `check`, `prepare`, `define` or `start`.
    pub step: String,
    /// `begun`, `done`, `undoing` or `undone`.
    pub state: String,
}
