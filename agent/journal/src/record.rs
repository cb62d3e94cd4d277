//! A guest as the journal has it.

use std::collections::BTreeMap;
use std::fmt;

use berth_virt::guest_spec::DesiredPower;
use serde::{Deserialize, Serialize};

use crate::bound_devices::BoundDevices;
use crate::overrides::{InstanceOverrides, TransitionPhase};
use crate::request::{GuestRequest, GuestRequestError};

/// A step of a guest on its way to running, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpawnStep {
    /// Its accelerator requests are bound, and their devices are its own.
    Bind,
    /// Each device may be given away: allowed, healthy, its IOMMU group whole, free.
    Check,
    /// Devices and disks are made ready.
    Prepare,
    /// The hypervisor knows it.
    Define,
    Start,
}

impl SpawnStep {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [
        Self::Bind,
        Self::Check,
        Self::Prepare,
        Self::Define,
        Self::Start,
    ];

    /// The word in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Check => "check",
            Self::Prepare => "prepare",
            Self::Define => "define",
            Self::Start => "start",
        }
    }

    /// The step of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }
}

impl fmt::Display for SpawnStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState {
    /// It may have acted, wholly or in part.
    Begun,
    Done,
    /// It is being undone.
    Undoing,
    /// Nothing of it is left.
    Undone,
}

impl StepState {
    pub const ALL: [Self; 4] = [Self::Begun, Self::Done, Self::Undoing, Self::Undone];

    /// The word in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Undoing => "undoing",
            Self::Undone => "undone",
        }
    }

    /// The state of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// How far a step is, and a word about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    pub state: StepState,
    /// What is to be known of it: why it is held, or the boot of the host that a guest was started in. May be empty.
    pub detail: String,
}

impl From<StepState> for StepRecord {
    fn from(state: StepState) -> Self {
        Self {
            state,
            detail: String::new(),
        }
    }
}

/// What is to blame for a guest that could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// Its image: no host could build it.
    Image,
    /// This host: another one may.
    Host,
}

impl Blame {
    /// As it is told.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Host => "host",
        }
    }
}

/// Where a guest is meant to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Goal {
    /// To run with its devices.
    Spawn,
    /// Back to nothing, its accelerator requests unbound; the guest stays known, with the reason, until it is deleted.
    Undo {
        reason: String,
        /// What is to blame, where another device of this host would not mend it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blame: Option<Blame>,
    },
    /// To nothing, accelerator requests included.
    Destroy,
}

/// All that is known of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRecord {
    /// What was asked for.
    pub request: GuestRequest,
    /// Where it is meant to go.
    pub course: Goal,
    /// Whether it should run.
    pub power: DesiredPower,
    /// How far it has come.
    pub steps: BTreeMap<SpawnStep, StepRecord>,
    /// The devices that are its own; none before they are bound.
    pub devices: Option<BoundDevices>,
    /// What has become of it since.
    pub life: InstanceOverrides,
}

impl GuestRecord {
    /// Whether CPUs, pages and devices of the host may be this guest's: it is not one whose spawn failed and was undone.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        !matches!(self.course, Goal::Undo { .. }) || self.open().is_some()
    }

    /// The request as the guest is to be when it is no longer rescued: rebuilt, where it was.
    pub fn own(&self) -> Result<GuestRequest, GuestRequestError> {
        match &self.life.rebuilt {
            Some(form) => form.given_to(&self.request),
            None => Ok(self.request.clone()),
        }
    }

    /// The request as the guest is to be now.
    pub fn present(&self) -> Result<GuestRequest, GuestRequestError> {
        match &self.life.rescue {
            Some(form) => form.given_to(&self.request),
            None => self.own(),
        }
    }

    /// The requests as the guest is to be when it is rebuilt or rescued, where it is; what does not fit together is left out.
    pub fn other_forms(&self) -> impl Iterator<Item = GuestRequest> {
        let forms = self.life.rebuilt.iter().chain(&self.life.rescue);
        forms.filter_map(|form| form.given_to(&self.request).ok())
    }

    /// Whether it is to go off before anything else: a turn of its life has just begun.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let stage = self.life.turning.as_ref().map(|turning| &turning.stage);
        matches!(stage, Some(TransitionPhase::Stopping { .. }))
    }

    /// How far a step is; none where it was never begun.
    #[must_use]
    pub fn state(&self, step: SpawnStep) -> Option<StepState> {
        self.steps.get(&step).map(|record| record.state)
    }

    /// Whether anything of a step may be there.
    #[must_use]
    pub fn may_have_acted(&self, step: SpawnStep) -> bool {
        !matches!(self.state(step), None | Some(StepState::Undone))
    }

    /// The boot of the host in which the guest was started last; empty where it never ran. One that ran is held, not undone,
    /// where it cannot be brought back: it has a tenant's state.
    #[must_use]
    pub fn ran_in(&self) -> &str {
        let start = self.steps.get(&SpawnStep::Start);
        start.map_or("", |record| record.detail.as_str())
    }

    /// What is still to be done, in words; none where the guest is where it should be.
    #[must_use]
    pub fn open(&self) -> Option<String> {
        let uuid = self.request.uuid();
        match &self.course {
            Goal::Spawn if self.state(SpawnStep::Start) != Some(StepState::Done) => {
                let turn = self.life.turning.as_ref();
                let what = turn.map_or("spawn", |turning| turning.turn.as_str());
                Some(format!("{what} {uuid}"))
            }
            Goal::Undo { .. } if SpawnStep::ALL.iter().any(|s| self.may_have_acted(*s)) => {
                Some(format!("undo {uuid}"))
            }
            Goal::Destroy => Some(format!("destroy {uuid}")),
            Goal::Spawn | Goal::Undo { .. } => None,
        }
    }
}
