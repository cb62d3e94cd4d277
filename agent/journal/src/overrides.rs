//! [`InstanceOverrides`]: the differences between a guest and its request: a rebuild with another image, a rescue, and the
//! transition that is under way.

use berth_agent_images::{ConfigDrive, DiskPlan, RecreateDisks};
use berth_virt::guest_spec::{GuestBoot, GuestDisks, GuestInterfaces, HostPath, MachineOptions};
use berth_wire::guest::ActionId;
use serde::{Deserialize, Serialize};

use crate::request::{GuestRequest, GuestRequestError};

/// What a guest boots from, its disks, and its machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootSource {
    pub boot: GuestBoot,
    /// How the disks are created.
    pub plan: DiskPlan,
    pub disks: GuestDisks,
    /// The machine of the image that the guest was rebuilt from; `None`: that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineOptions>,
}

impl BootSource {
    #[must_use]
    pub fn of(request: &GuestRequest) -> Self {
        Self {
            boot: request.spec().boot.clone(),
            plan: request.disks().clone(),
            disks: request.spec().disks.clone(),
            machine: None,
        }
    }

    /// The same with another content of the config drive.
    #[must_use]
    pub fn with_config_drive(self, drive: &ConfigDrive) -> Self {
        let plan = self.plan.with_config_drive(drive);
        Self { plan, ..self }
    }

    /// The request with this boot source.
    pub fn given_to(&self, request: &GuestRequest) -> Result<GuestRequest, GuestRequestError> {
        let request = request.in_form(self.boot.clone(), self.disks.clone(), self.plan.clone())?;
        Ok(match &self.machine {
            Some(machine) => request.with_machine(machine.clone()),
            None => request,
        })
    }
}

/// The kind of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionKind {
    /// The guest gets a rescue system.
    Rescue,
    /// The guest gets its own disks back.
    Unrescue,
    /// The root disk is created again.
    Rebuild,
}

impl TransitionKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
            Self::Rebuild => "rebuild",
        }
    }
}

/// Phase of a transition. Each phase can be repeated from its beginning:
/// `Stopping -> Rebuilding -> no transition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TransitionPhase {
    /// The guest is stopped, and the files in `discard` are removed. Nothing is created in this phase.
    #[serde(rename = "leaving")]
    Stopping {
        /// Time limit of a graceful shutdown, in seconds.
        grace_seconds: u16,
        discard: Vec<HostPath>,
        /// The disks that are removed.
        #[serde(rename = "anew")]
        recreate: RecreateDisks,
    },
    /// The steps of a spawn run with the new boot source. Nothing is removed in this phase.
    #[serde(rename = "making")]
    Rebuilding {
        /// The disks that are created again.
        #[serde(rename = "anew")]
        recreate: RecreateDisks,
    },
}

/// An unfinished transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingTransition {
    #[serde(rename = "turn")]
    pub kind: TransitionKind,
    #[serde(rename = "stage")]
    pub phase: TransitionPhase,
}

/// The differences between a guest and its request. The default has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstanceOverrides {
    /// The boot source of the last rebuild; `None`: that of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<BootSource>,
    /// The boot source of the rescue; `None` if the guest is not rescued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescue: Option<BootSource>,
    /// The config drive after its last change; `None`: that of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<ConfigDrive>,
    /// The interfaces after the last attachment or detachment; `None`: those of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<GuestInterfaces>,
    #[serde(rename = "turning", skip_serializing_if = "Option::is_none")]
    pub transition: Option<PendingTransition>,
    /// Whether the guest was stopped without Berth: from inside, or by a hypervisor command.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Whether the guest's memory is saved to disk when it is stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspending: bool,
    /// The last action with an id that is done, or that is recorded and will be completed.
    #[serde(rename = "acted", skip_serializing_if = "Option::is_none")]
    pub last_action: Option<ActionId>,
}

impl InstanceOverrides {
    /// Whether there is no difference.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The same with another content of the config drive, whatever the guest boots from.
    #[must_use]
    pub fn with_config_drive(self, drive: ConfigDrive) -> Self {
        let changed = |source: Option<BootSource>| source.map(|it| it.with_config_drive(&drive));
        Self {
            rebuilt: changed(self.rebuilt),
            rescue: changed(self.rescue),
            config_drive: Some(drive),
            ..self
        }
    }

    /// The same with this action as the last one; unchanged without an id.
    #[must_use]
    pub fn with_action(self, id: Option<&ActionId>) -> Self {
        match id {
            Some(id) => Self {
                last_action: Some(id.clone()),
                ..self
            },
            None => self,
        }
    }

    /// Whether the action is done, or recorded and will be completed.
    #[must_use]
    pub fn has_recorded(&self, id: Option<&ActionId>) -> bool {
        id.is_some() && self.last_action.as_ref() == id
    }

    /// The disks that the current transition creates again.
    #[must_use]
    pub fn recreate_disks(&self) -> RecreateDisks {
        match self.transition.as_ref().map(|transition| &transition.phase) {
            Some(
                TransitionPhase::Rebuilding { recreate }
                | TransitionPhase::Stopping { recreate, .. },
            ) => *recreate,
            None => RecreateDisks::None,
        }
    }
}
