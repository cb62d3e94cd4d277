//! The words: the agent's as they are read, Nova's as they are told.

use std::fmt;
use std::str::FromStr;

/// A word that this release does not know; the agent may be newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the word is not one of those that this release knows")]
pub struct UnknownWord;

/// How a guest is, by its agent (`GuestBody::status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestStatus {
    /// It is being made.
    Building,
    Active,
    /// It is defined and off.
    Stopped,
    /// It stands in its tracks.
    Paused,
    /// It runs from its rescue system.
    Rescued,
    /// On its way there.
    Rescuing,
    /// On its way back.
    Unrescuing,
    /// It gets a new root disk.
    Rebuilding,
    /// What there is of it is taken back.
    Failing,
    /// It did not come to be, or is lost.
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
    /// It is being made.
    Building,
    Stopped,
    /// It stands in its tracks.
    Paused,
    /// It runs from its rescue system.
    Rescued,
    /// It is not what was asked for.
    Error,
}

impl VmState {
    /// As it is told.
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
    /// A host is looked for.
    Scheduling,
    /// The host makes it.
    Spawning,
    /// It is switched on.
    PoweringOn,
    /// It is switched off.
    PoweringOff,
    /// It is asked to boot again.
    Rebooting,
    /// It is switched off and on.
    RebootingHard,
    /// It is stopped in its tracks.
    Pausing,
    Unpausing,
    /// It gets its rescue system.
    Rescuing,
    /// It gets its own again.
    Unrescuing,
    /// It gets a new root disk.
    Rebuilding,
    Deleting,
}

impl TaskState {
    const ALL: [Self; 12] = [
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
        Self::Deleting,
    ];

    /// As it is told.
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
            Self::Deleting => "deleting",
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

/// Nova's `OS-EXT-STS:power_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    NoState,
    Running,
    /// Stopped in its tracks.
    Paused,
    Shutdown,
    Crashed,
}

impl PowerState {
    /// As it is told: a number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::NoState => 0,
            Self::Running => 1,
            Self::Paused => 3,
            Self::Shutdown => 4,
            Self::Crashed => 6,
        }
    }
}

/// The agent's word (`GuestBody::state`).
impl FromStr for PowerState {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Ok(match word {
            "running" => Self::Running,
            "paused" => Self::Paused,
            "shut off" => Self::Shutdown,
            "crashed" => Self::Crashed,
            _ => return Err(UnknownWord),
        })
    }
}
