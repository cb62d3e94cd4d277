//! [`GuestRecord`]: the record of a guest in the journal: its request, its goal, and the state of each step.

use std::collections::BTreeMap;

use berth_model::ConsumerUuid;
use berth_store::Value;
use berth_virt::guest_spec::{DesiredPower, GuestInterfaces};
use berth_workflow::{JournalRecord, JournalSchema, RecordRow, StepRecord, StepState};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bound_devices::BoundDevices;
use crate::host_placement::NetworkFunction;
use crate::overrides::{BootSource, InstanceOverrides, TransitionPhase};
use crate::request::{GuestRequest, GuestRequestError};
use crate::schema::SCHEMA;

/// The steps of a spawn, in order.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum SpawnStep {
    /// Wait until the accelerator requests are bound, and claim their devices.
    Bind,
    /// Check that each device may be assigned: allowed, healthy, free, its IOMMU group complete.
    Check,
    /// Prepare devices and disks.
    Prepare,
    /// Define the domain on the hypervisor.
    Define,
    Start,
}

impl SpawnStep {
    /// All steps, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
}

/// The cause of a failed spawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The image: no host can build the guest.
    Image,
    /// This host: another host may build it.
    Host,
}

impl Blame {
    /// The word in answers of the agent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Host => "host",
        }
    }
}

/// The goal of a guest, which its reconcile task works towards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Goal {
    /// The guest exists with its devices.
    Spawn,
    /// All steps are undone and the accelerator requests unbound. The record stays with the reason until the guest is deleted.
    Undo {
        reason: String,
        /// The cause, if another device of this host would not help.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blame: Option<Blame>,
    },
    /// All steps are undone and the accelerator requests deleted.
    Destroy,
}

/// All that the journal records of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRecord {
    pub request: GuestRequest,
    pub goal: Goal,
    /// Whether the guest should run.
    pub power: DesiredPower,
    pub steps: BTreeMap<SpawnStep, StepRecord>,
    /// The devices of its accelerator requests; `None` before they are bound.
    pub devices: Option<BoundDevices>,
    /// Differences from the request: rescue, rebuild, and other actions.
    pub overrides: InstanceOverrides,
}

impl JournalRecord for GuestRecord {
    const SCHEMA: JournalSchema = SCHEMA;
    const COLUMNS: &'static [&'static str] = &["request", "course", "power", "devices", "life"];
    const DELETING: &'static str = r#"course = '"destroy"'"#;
    const STEP_COLUMNS: &'static [&'static str] = &["step"];
    type Step = SpawnStep;
    type Detail = String;

    fn step_values(step: &SpawnStep) -> Vec<Value> {
        vec![step.to_string().into()]
    }

    fn read_step(row: &RecordRow<'_>) -> Result<SpawnStep, String> {
        row.word("step")
    }

    fn from_row(
        row: &RecordRow<'_>,
        steps: BTreeMap<SpawnStep, StepRecord>,
    ) -> Result<Self, String> {
        Ok(Self {
            request: row.json("request")?,
            goal: row.json("course")?,
            power: row.word("power")?,
            steps,
            devices: row.opt_json("devices")?,
            overrides: row.opt_json("life")?.unwrap_or_default(),
        })
    }

    fn uuid(&self) -> ConsumerUuid {
        self.request.uuid()
    }
}

impl GuestRecord {
    /// Whether the guest may use CPUs, pages and devices of the host. A guest whose spawn failed and was undone does not.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        !matches!(self.goal, Goal::Undo { .. }) || self.open().is_some()
    }

    /// The request with the image of the last rebuild, the changed config drive and the present interfaces, without a
    /// rescue.
    pub fn own(&self) -> Result<GuestRequest, GuestRequestError> {
        let request = self.with_interfaces();
        match (&self.overrides.rebuilt, &self.overrides.config_drive) {
            (Some(form), _) => form.given_to(&request),
            (None, Some(drive)) => BootSource::of(&request)
                .with_config_drive(drive)
                .given_to(&request),
            (None, None) => Ok(request),
        }
    }

    /// The request with the present interfaces. A selected function becomes a device of the guest when its port is bound.
    #[must_use]
    pub fn with_interfaces(&self) -> GuestRequest {
        let interfaces = self.interfaces().clone();
        let request = self.request.clone().with_interfaces(interfaces);
        let unbound: Vec<_> = self.unbound_functions().collect();
        if unbound.is_empty() {
            return request;
        }
        let is_unbound = |port| unbound.iter().any(|function| function.port == port);
        let without = request.clone().without_functions(is_unbound);
        // Fewer devices of a valid list are a valid list.
        without.unwrap_or(request)
    }

    /// The interfaces after the last attachment or detachment.
    #[must_use]
    pub fn interfaces(&self) -> &GuestInterfaces {
        let attached = self.overrides.interfaces.as_ref();
        attached.unwrap_or(&self.request.spec().interfaces)
    }

    /// The network function that was selected for a port; `None` if the port needs none.
    #[must_use]
    pub fn function_of(&self, port: Uuid) -> Option<&NetworkFunction> {
        let mut functions = self.request.host_placement().network_functions().iter();
        functions.find(|function| function.port == port)
    }

    /// The port that a guest waits for before its first start; `None` if it waits for none. A guest that has started does not
    /// wait for ports that are attached later.
    #[must_use]
    pub fn awaited_port(&self) -> Option<Uuid> {
        let is_new = self.ran_in().is_empty();
        let unbound = self.unbound_functions().next().filter(|_| is_new);
        unbound.map(|function| function.port)
    }

    /// The selected network functions that still wait for the binding of their ports.
    pub fn unbound_functions(&self) -> impl Iterator<Item = &NetworkFunction> {
        let functions = self.request.host_placement().network_functions().iter();
        functions.filter(|function| {
            let mut ports = self.interfaces().ports();
            !ports.any(|(_, port)| port.id() == function.port)
        })
    }

    /// The request with the image of the rescue or of the last rebuild, as the guest should be now.
    pub fn present(&self) -> Result<GuestRequest, GuestRequestError> {
        match &self.overrides.rescue {
            Some(form) => form.given_to(&self.with_interfaces()),
            None => self.own(),
        }
    }

    /// The requests of the rebuilt guest and of the rescued guest, as far as they are valid.
    pub fn other_forms(&self) -> impl Iterator<Item = GuestRequest> {
        let forms = self.overrides.rebuilt.iter().chain(&self.overrides.rescue);
        forms.filter_map(|form| form.given_to(&self.with_interfaces()).ok())
    }

    /// Whether a transition has begun and the guest must be stopped first.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let phase = self
            .overrides
            .transition
            .as_ref()
            .map(|transition| &transition.phase);
        matches!(phase, Some(TransitionPhase::Stopping { .. }))
    }

    /// The state of a step; `None` before it begins.
    #[must_use]
    pub fn state(&self, step: SpawnStep) -> Option<StepState> {
        self.steps.get(&step).map(|record| record.state)
    }

    /// Whether a step may have effects on the host.
    #[must_use]
    pub fn may_have_acted(&self, step: SpawnStep) -> bool {
        !matches!(self.state(step), None | Some(StepState::Undone))
    }

    /// The boot id of the host when the guest was started last; empty if it never ran. If a guest that ran cannot be started
    /// again, it is blocked and not undone, because its disks have a tenant's data.
    #[must_use]
    pub fn ran_in(&self) -> &str {
        let start = self.steps.get(&SpawnStep::Start);
        start.map_or("", |record| record.detail.as_str())
    }

    /// Description of the unfinished work; `None` if the guest has reached its goal.
    #[must_use]
    pub fn open(&self) -> Option<String> {
        let uuid = self.request.uuid();
        match &self.goal {
            Goal::Spawn if self.state(SpawnStep::Start) != Some(StepState::Done) => {
                let transition = self.overrides.transition.as_ref();
                let what = transition.map_or("spawn", |transition| transition.kind.as_str());
                let waits = self.awaited_port().map_or_else(String::new, |port| {
                    format!(" (it waits for the binding of port {port})")
                });
                Some(format!("{what} {uuid}{waits}"))
            }
            Goal::Undo { .. } if SpawnStep::ALL.iter().any(|s| self.may_have_acted(*s)) => {
                Some(format!("undo {uuid}"))
            }
            Goal::Destroy => Some(format!("destroy {uuid}")),
            Goal::Spawn | Goal::Undo { .. } => None,
        }
    }
}
