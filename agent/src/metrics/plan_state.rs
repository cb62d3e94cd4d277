//! What `berth_plan_state` says of a node.

/// How a node's last pass ended, as `berth_plan_state` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanState {
    /// Placement has what is seen.
    InSync,
    /// It differs, and Placement did not take the change.
    Update,
    /// A reshape is needed.
    ReshapeNeeded,
    /// No plan could be made yet, or at present.
    Unknown,
}

impl PlanState {
    pub const ALL: [PlanState; 4] = [
        PlanState::InSync,
        PlanState::Update,
        PlanState::ReshapeNeeded,
        PlanState::Unknown,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PlanState::InSync => "in_sync",
            PlanState::Update => "update",
            PlanState::ReshapeNeeded => "reshape_needed",
            PlanState::Unknown => "unknown",
        }
    }
}
