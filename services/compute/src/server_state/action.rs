//! [`Action`]: server actions, and the states in which Nova allows each.

use super::{ServerState, TaskState, VmState};

/// An action on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Start,
    Stop,
    RebootSoft,
    RebootHard,
    Pause,
    Unpause,
    Rescue,
    Unrescue,
    Rebuild,
    AttachInterface,
    DetachInterface,
}

/// The action is not allowed in the server's current state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionRefused {
    #[error("Cannot '{action}' instance {instance} while it is in vm_state {vm_state}")]
    VmState {
        /// Nova's name of the action.
        action: &'static str,
        instance: String,
        vm_state: VmState,
    },
    /// Another action is pending.
    #[error("Cannot '{action}' instance {instance} while it is in task_state {task_state}")]
    TaskState {
        /// Nova's name of the action.
        action: &'static str,
        instance: String,
        task_state: TaskState,
    },
}

impl Action {
    pub const ALL: [Self; 11] = [
        Self::Start,
        Self::Stop,
        Self::RebootSoft,
        Self::RebootHard,
        Self::Pause,
        Self::Unpause,
        Self::Rescue,
        Self::Unrescue,
        Self::Rebuild,
        Self::AttachInterface,
        Self::DetachInterface,
    ];

    /// Nova's name, as in error messages and in the history of a server.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::RebootSoft | Self::RebootHard => "reboot",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
            Self::Rebuild => "rebuild",
            Self::AttachInterface => "attach_interface",
            Self::DetachInterface => "detach_interface",
        }
    }

    /// Nova's name of the event on the host.
    #[must_use]
    pub const fn event(self) -> &'static str {
        match self {
            Self::Start => "compute_start_instance",
            Self::Stop => "compute_stop_instance",
            Self::RebootSoft | Self::RebootHard => "compute_reboot_instance",
            Self::Pause => "compute_pause_instance",
            Self::Unpause => "compute_unpause_instance",
            Self::Rescue => "compute_rescue_instance",
            Self::Unrescue => "compute_unrescue_instance",
            Self::Rebuild => "compute_rebuild_instance",
            Self::AttachInterface => "compute_attach_interface",
            Self::DetachInterface => "compute_detach_interface",
        }
    }

    /// The `task_state` while the action is pending.
    #[must_use]
    pub const fn task(self) -> TaskState {
        match self {
            Self::Start => TaskState::PoweringOn,
            Self::Stop => TaskState::PoweringOff,
            Self::RebootSoft => TaskState::Rebooting,
            Self::RebootHard => TaskState::RebootingHard,
            Self::Pause => TaskState::Pausing,
            Self::Unpause => TaskState::Unpausing,
            Self::Rescue => TaskState::Rescuing,
            Self::Unrescue => TaskState::Unrescuing,
            Self::Rebuild => TaskState::Rebuilding,
            Self::AttachInterface => TaskState::AttachingInterface,
            Self::DetachInterface => TaskState::DetachingInterface,
        }
    }

    /// The states in which Nova allows the action.
    const fn vm_states(self) -> &'static [VmState] {
        use VmState::{Active, Error, Paused, Rescued, Stopped};
        match self {
            Self::Start => &[Stopped],
            Self::Stop => &[Active, Error],
            Self::RebootSoft | Self::Pause => &[Active],
            Self::RebootHard => &[Active, Stopped, Paused, Error],
            Self::Unpause => &[Paused],
            Self::Rescue | Self::Rebuild => &[Active, Stopped, Error],
            Self::Unrescue => &[Rescued],
            Self::AttachInterface | Self::DetachInterface => &[Active, Paused, Stopped],
        }
    }

    /// Whether the action may follow a pending one: a hard reboot may interrupt a reboot that hangs.
    pub(crate) fn comes_after(self, task: TaskState) -> bool {
        self == Self::RebootHard && matches!(task, TaskState::Rebooting | TaskState::RebootingHard)
    }

    /// Checks that the action is allowed in the server's state.
    pub fn check(self, instance: &str, state: &ServerState) -> Result<(), ActionRefused> {
        let action = self.as_str();
        let instance = instance.to_owned();
        if !self.vm_states().contains(&state.vm_state) {
            return Err(ActionRefused::VmState {
                action,
                instance,
                vm_state: state.vm_state,
            });
        }
        match state.task_state {
            Some(task_state) if !self.comes_after(task_state) => Err(ActionRefused::TaskState {
                action,
                instance,
                task_state,
            }),
            _ => Ok(()),
        }
    }
}
