//! Guests as they travel over the admin API: from records to bodies, from bodies to what is done.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_model::ConsumerUuid;
use berth_virt::PowerAction;
use berth_virt::guest_spec::DesiredPower;
use berth_wire::guest::{GuestAction, GuestBody, GuestBuild, GuestList, StepBody};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::admin::body::API;
use crate::guest::GuestRequest;
use crate::guest::journal::{Course, GuestRecord, SpawnStep, StepState};

/// The longest time that a guest may take to end by itself, in seconds.
const LONGEST_GRACE: u16 = 600;

/// All guests, with why they stand still.
pub(super) fn list(records: &[GuestRecord], held: &BTreeMap<ConsumerUuid, String>) -> GuestList {
    let guests = records
        .iter()
        .map(|record| one(record, held.get(&record.request.uuid())));
    GuestList {
        api: API.to_owned(),
        guests: guests.collect(),
    }
}

/// One guest, with why it stands still.
pub(super) fn one(record: &GuestRecord, held: Option<&String>) -> GuestBody {
    let request = &record.request;
    let own = request.spec().devices.as_slice().iter();
    let own = own.map(|attached| attached.device.to_string());
    let bound = record.devices.iter().flat_map(|devices| devices.iter());
    let bound = bound.map(|bound| bound.device.to_string());
    let steps = record.steps.iter().map(|(step, record)| StepBody {
        step: step.as_str().to_owned(),
        state: record.state.as_str().to_owned(),
    });
    let topology = &request.spec().topology;
    let pinned = topology.pinning().map(|pinning| pinning.dedicated());
    let cells = topology.cells().iter();
    GuestBody {
        uuid: *request.uuid().as_uuid(),
        name: request.spec().name.to_string(),
        node: request.node().to_string(),
        status: status(record).to_owned(),
        reason: held.cloned().or_else(|| reason(record)),
        dedicated_cpus: pinned.map(|cpus| cpus.to_string()).unwrap_or_default(),
        host_cells: cells.map(|cell| cell.host_cell).collect(),
        accelerator_requests: request.arqs().iter().map(|arq| *arq.as_uuid()).collect(),
        devices: own.chain(bound).collect(),
        steps: steps.collect(),
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

/// What is asked for: a build, or, of whoever knows the host himself, the whole guest.
pub(super) enum Creation {
    Build(Box<GuestBuild>),
    Whole(Box<GuestRequest>),
}

impl Creation {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, berth_wire::BodyError> {
        /// Which of the two a body is.
        #[derive(Deserialize)]
        struct Shape {
            spec: Option<IgnoredAny>,
        }
        let shape: Shape = berth_wire::decode(bytes)?;
        match shape.spec {
            Some(_) => Ok(Self::Whole(Box::new(berth_wire::decode(bytes)?))),
            None => Ok(Self::Build(Box::new(berth_wire::decode(bytes)?))),
        }
    }
}

pub(super) fn power_action(action: &GuestAction) -> PowerAction {
    match action {
        GuestAction::Start {} => PowerAction::Start,
        GuestAction::Stop { grace_seconds } => PowerAction::Stop {
            grace: Duration::from_secs((*grace_seconds).min(LONGEST_GRACE).into()),
        },
        GuestAction::Pause {} => PowerAction::Pause,
        GuestAction::Unpause {} => PowerAction::Unpause,
        GuestAction::SoftReboot {} => PowerAction::SoftReboot,
        GuestAction::HardReboot {} => PowerAction::HardReboot,
    }
}
