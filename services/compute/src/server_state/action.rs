//! Which action a server can be asked for as it is.

use super::{ServerState, TaskState, VmState};

/// What a server can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `os-start`.
    Start,
    /// `os-stop`.
    Stop,
    /// `reboot` of type `SOFT`.
    RebootSoft,
    /// `reboot` of type `HARD`.
    RebootHard,
    /// `pause`.
    Pause,
    /// `unpause`.
    Unpause,
    /// `rescue`.
    Rescue,
    /// `unrescue`.
    Unrescue,
    /// `rebuild`.
    Rebuild,
}

/// A server that cannot be asked for an action as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionRefused {
    /// It is not what the action is for.
    #[error("Cannot '{action}' instance {instance} while it is in vm_state {vm_state}")]
    VmState {
        /// The action, in Nova's word.
        action: &'static str,
        instance: String,
        vm_state: VmState,
    },
    /// Something else is being done with it.
    #[error("Cannot '{action}' instance {instance} while it is in task_state {task_state}")]
    TaskState {
        /// The action, in Nova's word.
        action: &'static str,
        instance: String,
        /// What is being done.
        task_state: TaskState,
    },
}

impl Action {
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Stop,
        Self::RebootSoft,
        Self::RebootHard,
        Self::Pause,
        Self::Unpause,
        Self::Rescue,
        Self::Unrescue,
        Self::Rebuild,
    ];

    /// Nova's word for it, in its sentences and in the list of a server's actions.
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
        }
    }

    /// Nova's word for what its host does about it.
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
        }
    }

    /// What is told to be done while it is under way.
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
        }
    }

    /// The states that Nova takes it in.
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
        }
    }

    /// Whether it can be begun while that is being done: only one that hangs in a soft reboot is helped by a hard one.
    pub(crate) fn comes_after(self, task: TaskState) -> bool {
        self == Self::RebootHard && matches!(task, TaskState::Rebooting | TaskState::RebootingHard)
    }

    /// Refuses it to a server that is not in a state for it.
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
