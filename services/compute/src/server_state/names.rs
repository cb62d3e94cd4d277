//! Names of states: parses those of agents, prints those of Nova.

use std::fmt;
use std::str::FromStr;

/// A state name that this release does not know. The agent may be newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown state name")]
pub struct UnknownWord;

/// The state of a guest as its agent reports it (`GuestBody::status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestStatus {
    Building,
    Active,
    /// Defined and powered off.
    Stopped,
    Paused,
    /// Running its rescue system.
    Rescued,
    Rescuing,
    Unrescuing,
    /// Its root disk is being replaced.
    Rebuilding,
    /// Its build failed and is being undone.
    Failing,
    /// Its build failed, or the guest is lost.
    Failed,
    Deleting,
}

impl FromStr for GuestStatus {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Ok(match word {
            "building" => Self::Building,
            "active" => Self::Active,
            "stopped" => Self::Stopped,
            "paused" => Self::Paused,
            "rescued" => Self::Rescued,
            "rescuing" => Self::Rescuing,
            "unrescuing" => Self::Unrescuing,
            "rebuilding" => Self::Rebuilding,
            "failing" => Self::Failing,
            "failed" => Self::Failed,
            "deleting" => Self::Deleting,
            _ => return Err(UnknownWord),
        })
    }
}

/// Nova's `OS-EXT-STS:vm_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmState {
    Active,
    Building,
    Stopped,
    Paused,
    /// Running its rescue system.
    Rescued,
    /// The build or an action failed.
    Error,
}

impl VmState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Building => "building",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Rescued => "rescued",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for VmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Nova's `OS-EXT-STS:task_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// The scheduler is choosing a host.
    Scheduling,
    /// The host is building the guest.
    Spawning,
    PoweringOn,
    PoweringOff,
    /// Soft reboot: the guest is asked to reboot.
    Rebooting,
    /// Hard reboot: powered off and on.
    RebootingHard,
    Pausing,
    Unpausing,
    Rescuing,
    Unrescuing,
    /// Its root disk is being replaced.
    Rebuilding,
    /// Nova has no name for this state, so it is not shown.
    AttachingInterface,
    /// As [`TaskState::AttachingInterface`].
    DetachingInterface,
    Deleting,
}

impl TaskState {
    const ALL: [Self; 14] = [
        Self::Scheduling,
        Self::Spawning,
        Self::PoweringOn,
        Self::PoweringOff,
        Self::Rebooting,
        Self::RebootingHard,
        Self::Pausing,
        Self::Unpausing,
        Self::Rescuing,
        Self::Unrescuing,
        Self::Rebuilding,
        Self::AttachingInterface,
        Self::DetachingInterface,
        Self::Deleting,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduling => "scheduling",
            Self::Spawning => "spawning",
            Self::PoweringOn => "powering-on",
            Self::PoweringOff => "powering-off",
            Self::Rebooting => "rebooting",
            Self::RebootingHard => "rebooting_hard",
            Self::Pausing => "pausing",
            Self::Unpausing => "unpausing",
            Self::Rescuing => "rescuing",
            Self::Unrescuing => "unrescuing",
            Self::Rebuilding => "rebuilding",
            Self::AttachingInterface => "attaching_interface",
            Self::DetachingInterface => "detaching_interface",
            Self::Deleting => "deleting",
        }
    }
}

impl TaskState {
    /// Nova's name; `None` for states that Nova does not have.
    #[must_use]
    pub const fn nova_name(self) -> Option<&'static str> {
        match self {
            Self::AttachingInterface | Self::DetachingInterface => None,
            _ => Some(self.as_str()),
        }
    }
}

impl FromStr for TaskState {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let mut all = Self::ALL.into_iter();
        all.find(|task| task.as_str() == word).ok_or(UnknownWord)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
