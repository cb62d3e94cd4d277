//! Responses of the agent's guest API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Response of GET /v1/guests: all guests of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestList {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The guests, by UUID.
    pub guests: Vec<GuestBody>,
}

/// One guest: GET /v1/guests/{uuid}, and the response to changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestBody {
    /// UUID of the guest and its instance.
    pub uuid: Uuid,
    /// Its name on the hypervisor.
    pub name: String,
    /// Name of the node that it is on.
    pub node: String,
    /// `building`, `active`, `stopped`, `paused`, `rescued`, `rescuing`, `unrescuing`, `rebuilding`,
    /// `failing`, `failed` or `deleting`.
    pub status: String,
    /// The hypervisor's state: `running`, `paused`, `shut off` or `crashed`; null if there is no domain or no answer.
    #[serde(default)]
    pub state: Option<String>,
    /// Why it failed, powered off or is blocked; null if nothing is wrong.
    pub reason: Option<String>,
    /// The cause of a failure that another device of the host would not fix: `image` (unusable) or `host` (cannot
    /// create the disks); null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blame: Option<String>,
    /// The host's CPUs that are its alone, in the grammar of `cpu_dedicated_set` (`2-3,8`); empty: none.
    #[serde(default)]
    pub dedicated_cpus: String,
    /// The host NUMA cells it is placed on, in the order of its own cells; empty without NUMA placement.
    #[serde(default)]
    pub host_cells: Vec<u32>,
    /// How far its image is, while that is coming onto the host; null: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageComing>,
    /// UUIDs of the accelerator requests (ARQs) bound to it.
    pub accelerator_requests: Vec<Uuid>,
    /// Its devices, for display.
    pub devices: Vec<String>,
    /// Its steps, in their order.
    pub steps: Vec<StepBody>,
}

/// An image that is coming onto a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageComing {
    /// `fetch` (downloading), `convert` (converting to raw) or `done`.
    pub stage: String,
    /// How many bytes of the stage are done.
    pub bytes: u64,
    /// The total; null if unknown.
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
