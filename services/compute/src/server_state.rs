//! What a server is in Nova's words: status, `vm_state`, `task_state` and `power_state`; pure.
//!
//! None of these is kept as the truth. The conductor says how far the boot is, the host's agent what the guest is, and the row of
//! the server what was asked for last and is under way ([`ServerFacts`]). Of an agent that does not answer the last word counts.

mod action;
mod words;

pub use action::{Action, ActionRefused};
pub use words::{GuestStatus, PowerState, TaskState, UnknownWord, VmState};

/// How far the conductor is with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boot {
    /// No host has been chosen: it is not handed over yet, or an attempt was taken back.
    Scheduling,
    /// It is built on a host.
    Spawning,
    /// It is the agent's.
    Active,
    /// It did not come to be, and nothing of it is left.
    Failed,
    Deleting {
        /// Whether it had not come to be.
        failed: bool,
    },
}

/// What the agent said of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub status: GuestStatus,
    /// What the hypervisor has of it; none where it has none, or does not answer.
    pub power: Option<PowerState>,
}

/// All that the state of a server comes of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerFacts {
    /// How far the conductor is.
    pub boot: Boot,
    /// What the agent says; none where it does not answer, or there is no guest.
    pub seen: Option<Seen>,
    /// What the agent said when it answered last.
    pub last: Option<Seen>,
    /// What was asked for through the API and is under way.
    pub task: Option<TaskState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerState {
    pub vm_state: VmState,
    /// What is being done with it.
    pub task_state: Option<TaskState>,
    /// What the hypervisor has of it.
    pub power_state: PowerState,
}

impl ServerState {
    /// What the facts come to.
    #[must_use]
    pub fn of(facts: &ServerFacts) -> Self {
        let seen = facts.seen.or(facts.last);
        let (vm_state, own_task) = match facts.boot {
            Boot::Scheduling => (VmState::Building, Some(TaskState::Scheduling)),
            Boot::Spawning => (VmState::Building, Some(TaskState::Spawning)),
            Boot::Failed => (VmState::Error, None),
            Boot::Active => seen.map_or((VmState::Active, None), |seen| of_guest(seen.status)),
            Boot::Deleting { failed: true } => (VmState::Error, Some(TaskState::Deleting)),
            // It may go before it was ever there.
            Boot::Deleting { failed: false } => (
                seen.map_or(VmState::Building, |seen| of_guest(seen.status).0),
                Some(TaskState::Deleting),
            ),
        };
        let power_state = match facts.boot {
            Boot::Active | Boot::Deleting { failed: false } => seen.and_then(|seen| seen.power),
            Boot::Scheduling | Boot::Spawning | Boot::Failed | Boot::Deleting { failed: true } => {
                None
            }
        };
        let (vm_state, task_state) = match (facts.boot, facts.task) {
            (Boot::Active, Some(task)) => (until_ended(task, vm_state), Some(task)),
            _ => (vm_state, own_task),
        };
        Self {
            vm_state,
            task_state,
            power_state: power_state.unwrap_or(PowerState::NoState),
        }
    }

    /// The one word of it that users see first.
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

/// What a server is while something is done with it. Its agent may say that it is done before that is written down; whoever waits
/// for the new state asks for the next action at once, and would be refused.
fn until_ended(task: TaskState, vm_state: VmState) -> VmState {
    use {TaskState as Task, VmState as Vm};
    match (task, vm_state) {
        (Task::PoweringOn, Vm::Active) => Vm::Stopped,
        (Task::PoweringOff, Vm::Stopped)
        | (Task::Pausing, Vm::Paused)
        | (Task::Rescuing, Vm::Rescued) => Vm::Active,
        (Task::Unpausing, Vm::Active) => Vm::Paused,
        (Task::Unrescuing, Vm::Active) => Vm::Rescued,
        (_, vm_state) => vm_state,
    }
}

/// What a guest is by its agent's word, and what the agent is about to do with it.
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
