//! Guests as they travel over the admin API.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_model::ConsumerUuid;
use berth_virt::PowerAction;
use berth_virt::guest_spec::DesiredPower;
use serde::{Deserialize, Serialize};

use crate::admin::body::API;
use crate::guest::journal::{Course, GuestRecord, SpawnStep, StepState};

/// The longest time that a guest may take to end by itself, in seconds.
const LONGEST_GRACE: u16 = 600;

/// GET /v1/guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestList {
    /// [`API`].
    pub api: String,
    /// The guests, by UUID.
    pub guests: Vec<GuestBody>,
}

impl GuestList {
    pub(super) fn new(records: &[GuestRecord], held: &BTreeMap<ConsumerUuid, String>) -> Self {
        let guests = records
            .iter()
            .map(|record| GuestBody::new(record, held.get(&record.request.uuid())));
        Self {
            api: API.to_owned(),
            guests: guests.collect(),
        }
    }
}

/// One guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestBody {
    /// Its UUID.
    pub uuid: String,
    /// Its name on the hypervisor.
    pub name: String,
    /// Its node.
    pub node: String,
    /// `building`, `active`, `stopped`, `paused`, `failing`, `failed` or `deleting`.
    pub status: String,
    /// Why it failed, or what it is held by; null: nothing is wrong.
    pub reason: Option<String>,
    /// Its accelerator requests.
    pub accelerator_requests: Vec<String>,
    /// The devices that these are bound to, in words.
    pub devices: Vec<String>,
    /// Its steps, in their order.
    pub steps: Vec<StepBody>,
}

/// One step of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBody {
    /// `bind`, `check`, `prepare`, `define` or `start`.
    pub step: String,
    /// `begun`, `done`, `undoing` or `undone`.
    pub state: String,
}

impl GuestBody {
    pub(super) fn new(record: &GuestRecord, held: Option<&String>) -> Self {
        let devices = record.devices.iter().flat_map(|devices| devices.iter());
        let steps = record.steps.iter().map(|(step, record)| StepBody {
            step: step.as_str().to_owned(),
            state: record.state.as_str().to_owned(),
        });
        let arqs = record.request.arqs().iter();
        Self {
            uuid: record.request.uuid().to_string(),
            name: record.request.spec().name.to_string(),
            node: record.request.node().to_string(),
            status: status(record).to_owned(),
            reason: held.cloned().or_else(|| reason(record)),
            accelerator_requests: arqs.map(ToString::to_string).collect(),
            devices: devices.map(|bound| bound.device.to_string()).collect(),
            steps: steps.collect(),
        }
    }
}

fn status(record: &GuestRecord) -> &'static str {
    match &record.course {
        Course::Destroy => "deleting",
        Course::Undo { .. } if record.open().is_some() => "failing",
        Course::Undo { .. } => "failed",
        Course::Spawn if record.open().is_some() => "building",
        Course::Spawn => match record.power {
            DesiredPower::Running => "active",
            DesiredPower::Paused => "paused",
            DesiredPower::ShutOff => "stopped",
        },
    }
}

fn reason(record: &GuestRecord) -> Option<String> {
    let held = record
        .steps
        .get(&SpawnStep::Prepare)
        .filter(|step| step.state == StepState::Undoing && !step.detail.is_empty());
    match (&record.course, held) {
        (_, Some(held)) => Some(held.detail.clone()),
        (Course::Undo { reason }, None) => Some(reason.clone()),
        (Course::Spawn | Course::Destroy, None) => None,
    }
}

/// POST /v1/guests/{uuid}/action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ActionBody {
    Start,
    Stop {
        #[serde(default)]
        grace_seconds: u16,
    },
    Pause,
    Unpause,
    SoftReboot,
    HardReboot,
}

impl ActionBody {
    pub(super) fn action(self) -> PowerAction {
        match self {
            Self::Start => PowerAction::Start,
            Self::Stop { grace_seconds } => PowerAction::Stop {
                grace: Duration::from_secs(grace_seconds.min(LONGEST_GRACE).into()),
            },
            Self::Pause => PowerAction::Pause,
            Self::Unpause => PowerAction::Unpause,
            Self::SoftReboot => PowerAction::SoftReboot,
            Self::HardReboot => PowerAction::HardReboot,
        }
    }
}
