//! The state of a server in Nova's terms: status, `vm_state`, `task_state` and `power_state`; pure.
//!
//! These are computed, not stored: from the conductor's boot phase, the agent's observation of the guest, and the
//! server's row with its pending action ([`ServerFacts`]). If an agent does not answer, its last report counts.

mod action;
mod names;

use berth_model::PowerState;

pub use action::{Action, ActionRefused};
pub use names::{GuestStatus, TaskState, UnknownWord, VmState};

/// How far the conductor is with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootPhase {
    /// No host is chosen yet: the server is not handed over, or an attempt was undone.
    Scheduling,
    /// A host is building it.
    Spawning,
    /// The guest exists on its host.
    Active,
    /// The boot failed, and nothing is left of it.
    Failed,
    Deleting {
        /// Whether the boot had not succeeded.
        failed: bool,
    },
}

/// The agent's report of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestObservation {
    pub status: GuestStatus,
    /// The hypervisor's power state; `None` if it has no such guest or does not answer.
    pub power: Option<PowerState>,
}

/// The input from which the state is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerFacts {
    /// How far the conductor is.
    pub boot: BootPhase,
    /// The agent's current report; `None` if it does not answer or there is no guest.
    pub current: Option<GuestObservation>,
    /// The agent's last report.
    pub last_report: Option<GuestObservation>,
    /// The pending action, if any.
    pub task: Option<TaskState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerState {
    pub vm_state: VmState,
    pub task_state: Option<TaskState>,
    /// `None` is Nova's `NOSTATE`.
    pub power_state: Option<PowerState>,
}

impl ServerState {
    #[must_use]
    pub fn of(facts: &ServerFacts) -> Self {
        let observed = facts.current.or(facts.last_report);
        let (vm_state, own_task) = match facts.boot {
            BootPhase::Scheduling => (VmState::Building, Some(TaskState::Scheduling)),
            BootPhase::Spawning => (VmState::Building, Some(TaskState::Spawning)),
            BootPhase::Failed => (VmState::Error, None),
            BootPhase::Active => observed.map_or((VmState::Active, None), |observed| {
                of_guest(observed.status)
            }),
            BootPhase::Deleting { failed: true } => (VmState::Error, Some(TaskState::Deleting)),
            // A server may be deleted before it exists.
            BootPhase::Deleting { failed: false } => (
                observed.map_or(VmState::Building, |observed| of_guest(observed.status).0),
                Some(TaskState::Deleting),
            ),
        };
        let power_state = match facts.boot {
            BootPhase::Active | BootPhase::Deleting { failed: false } => {
                observed.and_then(|observed| observed.power)
            }
            BootPhase::Scheduling
            | BootPhase::Spawning
            | BootPhase::Failed
            | BootPhase::Deleting { failed: true } => None,
        };
        let (vm_state, task_state) = match (facts.boot, facts.task) {
            (BootPhase::Active, Some(task)) => (until_ended(task, vm_state), Some(task)),
            _ => (vm_state, own_task),
        };
        Self {
            vm_state,
            task_state,
            power_state,
        }
    }

    /// Nova's number of the power state.
    #[must_use]
    pub fn power_number(&self) -> u8 {
        self.power_state.map_or(0, PowerState::nova_number)
    }

    /// The `status` that users see.
    #[must_use]
    pub fn status(&self) -> &'static str {
        use {TaskState as Task, VmState as Vm};
        match (self.vm_state, self.task_state) {
            (Vm::Active | Vm::Stopped | Vm::Error, Some(Task::Rebuilding)) => "REBUILD",
            (Vm::Active, Some(Task::Rebooting)) => "REBOOT",
            (Vm::Active, Some(Task::RebootingHard)) => "HARD_REBOOT",
            (Vm::Active, _) => "ACTIVE",
            (Vm::Building, _) => "BUILD",
            (Vm::Stopped, _) => "SHUTOFF",
            (Vm::Paused, _) => "PAUSED",
            (Vm::Rescued, _) => "RESCUE",
            (Vm::Error, _) => "ERROR",
        }
    }
}

/// The state while an action is pending. The agent may report the result before it is stored; a client that waits for
/// the new state would then send its next action too early and be refused.
fn until_ended(task: TaskState, vm_state: VmState) -> VmState {
    use {TaskState as Task, VmState as Vm};
    match (task, vm_state) {
        // The agent defines a guest again to start it, and reports that as a build.
        (Task::PoweringOn, Vm::Active | Vm::Building) => Vm::Stopped,
        (Task::Unrescuing, Vm::Building) => Vm::Rescued,
        (Task::Unpausing, Vm::Building) => Vm::Paused,
        (_, Vm::Building) => Vm::Active,
        (Task::PoweringOff, Vm::Stopped)
        | (Task::Pausing, Vm::Paused)
        | (Task::Rescuing, Vm::Rescued) => Vm::Active,
        (Task::Unpausing, Vm::Active) => Vm::Paused,
        (Task::Unrescuing, Vm::Active) => Vm::Rescued,
        (_, vm_state) => vm_state,
    }
}

/// The state that follows from the agent's report, and what the agent is about to do.
fn of_guest(status: GuestStatus) -> (VmState, Option<TaskState>) {
    match status {
        GuestStatus::Building => (VmState::Building, Some(TaskState::Spawning)),
        GuestStatus::Active => (VmState::Active, None),
        GuestStatus::Stopped => (VmState::Stopped, None),
        GuestStatus::Paused => (VmState::Paused, None),
        GuestStatus::Rescued => (VmState::Rescued, None),
        GuestStatus::Rescuing => (VmState::Active, Some(TaskState::Rescuing)),
        GuestStatus::Unrescuing => (VmState::Rescued, Some(TaskState::Unrescuing)),
        GuestStatus::Rebuilding => (VmState::Active, Some(TaskState::Rebuilding)),
        GuestStatus::Failing | GuestStatus::Failed => (VmState::Error, None),
        GuestStatus::Deleting => (VmState::Active, Some(TaskState::Deleting)),
    }
}

#[cfg(test)]
mod tests;
