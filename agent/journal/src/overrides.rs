//! What has become of a guest since it was asked for: another image, a rescue system for a while, and what is under way of it.

use berth_agent_images::{DiskPlan, RecreateDisks};
use berth_virt::guest_spec::{GuestBoot, GuestDisks, HostPath};
use berth_wire::guest::ActionId;
use serde::{Deserialize, Serialize};

use crate::request::{GuestRequest, GuestRequestError};

/// What a guest boots from, and its disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootSource {
    /// What it starts from.
    pub boot: GuestBoot,
    /// The disks that are to be made.
    pub plan: DiskPlan,
    pub disks: GuestDisks,
}

impl BootSource {
    /// That of a request.
    #[must_use]
    pub fn of(request: &GuestRequest) -> Self {
        Self {
            boot: request.spec().boot.clone(),
            plan: request.disks().clone(),
            disks: request.spec().disks.clone(),
        }
    }

    /// The request in this form.
    pub fn given_to(&self, request: &GuestRequest) -> Result<GuestRequest, GuestRequestError> {
        request.in_form(self.boot.clone(), self.disks.clone(), self.plan.clone())
    }
}

/// What is being done with a guest, for a word about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransitionKind {
    /// It is given a rescue system.
    Rescue,
    /// It is given its own disks back.
    Unrescue,
    /// Its root disk is made anew.
    Rebuild,
}

impl TransitionKind {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
            Self::Rebuild => "rebuild",
        }
    }
}

/// How far a turn is. Each stage may be done again from its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TransitionPhase {
    /// The guest goes off, and these files of it are removed. Nothing is made while this is so.
    #[serde(rename = "leaving")]
    Stopping {
        /// How long it may take to end by itself, in seconds.
        grace_seconds: u16,
        discard: Vec<HostPath>,
        /// What may not be there afterwards.
        anew: RecreateDisks,
    },
    /// It goes through the steps of its spawn, in its new form. Nothing is removed any more.
    #[serde(rename = "making")]
    Rebuilding {
        /// What may not be there.
        anew: RecreateDisks,
    },
}

/// A turn under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingTransition {
    pub turn: TransitionKind,
    pub stage: TransitionPhase,
}

/// What has become of a guest since it was asked for. The default is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstanceOverrides {
    /// Its own form, where it was rebuilt; none: as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuilt: Option<BootSource>,
    /// Its form while it is rescued; none: its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescue: Option<BootSource>,
    /// What is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turning: Option<PendingTransition>,
    /// Whether it went off without berth: it ended itself, or somebody stopped it by hand.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Whether its memory is to be written to disk when it goes off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub suspending: bool,
    /// The last action that was asked for by an id and is done, or is gone on with until it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acted: Option<ActionId>,
}

impl InstanceOverrides {
    /// Whether nothing has become of it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The same with the action of this id done; without an id, as it is.
    #[must_use]
    pub fn acted_by(self, id: Option<&ActionId>) -> Self {
        match id {
            Some(id) => Self {
                acted: Some(id.clone()),
                ..self
            },
            None => self,
        }
    }

    /// Whether this action is done, or gone on with.
    #[must_use]
    pub fn has_acted(&self, id: Option<&ActionId>) -> bool {
        id.is_some() && self.acted.as_ref() == id
    }

    /// What may not be there of its disks, because it is made now.
    #[must_use]
    pub fn anew(&self) -> RecreateDisks {
        match self.turning.as_ref().map(|turning| &turning.stage) {
            Some(TransitionPhase::Rebuilding { anew } | TransitionPhase::Stopping { anew, .. }) => {
                *anew
            }
            None => RecreateDisks::None,
        }
    }
}
