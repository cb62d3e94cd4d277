//! The records of the device register.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_model::{ConsumerUuid, NodeName, ProviderUuid};

/// Who put a device into quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantinedBy {
    /// The agent, because a reset failed.
    Agent,
    Operator,
}

impl QuarantinedBy {
    /// The word in the table and in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator => "operator",
        }
    }
}

/// Why a device is quarantined: no guest can claim it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    pub reason: String,
    pub by: QuarantinedBy,
    /// When it began, in whole seconds.
    pub since: SystemTime,
}

impl Quarantine {
    #[must_use]
    pub fn new(reason: impl Into<String>, by: QuarantinedBy) -> Self {
        Self {
            reason: reason.into(),
            by,
            since: from_seconds(seconds(SystemTime::now())),
        }
    }
}

/// The content of the register.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Register {
    pub quarantines: BTreeMap<String, Quarantine>,
    /// The output of each failed health check, by the address of its device.
    pub unhealthy: BTreeMap<String, String>,
    /// The devices that are being reset or programmed.
    pub running_resets: BTreeSet<String>,
    /// The release count of each device at its last verified reset.
    pub release_count_at_reset: BTreeMap<String, i64>,
    /// The devices of guests in the journal.
    pub held: BTreeMap<String, ConsumerUuid>,
    /// The providers that the accelerator service has disabled, by node.
    pub disabled: BTreeMap<NodeName, BTreeSet<ProviderUuid>>,
}

/// Result of [`super::DeviceRegister::begin_reset`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResetStart {
    /// No guest has the device, and no guest can claim it before the reset ends.
    Begun,
    /// This guest has the device.
    Held(ConsumerUuid),
    /// The device is already being reset.
    InProgress,
}

/// What happens to a device's quarantine after a successful reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineAfterReset {
    /// An operator only requested a reset.
    Keep,
    End,
}

/// The result of a device's reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResetEnd {
    Clean {
        /// The release count that the reset belongs to; `None` if the accelerator service does not know the device.
        release_count: Option<i64>,
        quarantine: QuarantineAfterReset,
    },
    /// The reset failed; the device must be quarantined.
    Failed(Quarantine),
    /// The result is unknown; the device still needs a reset.
    Unknown,
}

/// Why no guest can claim a device now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithheldReason {
    /// The device is being reset. It is available again when the reset succeeds.
    Resetting,
    /// The device is quarantined for this reason.
    Quarantined(String),
}

impl fmt::Display for WithheldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resetting => f.write_str("it is being reset"),
            Self::Quarantined(reason) => write!(f, "it is in quarantine: {reason}"),
        }
    }
}

pub(super) fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

pub(super) fn from_seconds(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}
