//! What is recorded of devices.

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
    /// The word in the table and in bodies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Operator => "operator",
        }
    }
}

/// Why a device is withheld from instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    pub reason: String,
    pub by: QuarantinedBy,
    /// Since when, in whole seconds.
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

/// All of it, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Register {
    pub quarantines: BTreeMap<String, Quarantine>,
    /// The words of the vendor's check, by the address of each device of which it does not say that it is well.
    pub sick: BTreeMap<String, String>,
    /// The devices that are being reset.
    pub cleaning: BTreeSet<String>,
    /// The release after which each was cleaned last.
    pub cleaned: BTreeMap<String, i64>,
    /// The devices that guests of the journal hold.
    pub held: BTreeMap<String, ConsumerUuid>,
    /// The providers that the accelerator service has disabled, by node.
    pub disabled: BTreeMap<NodeName, BTreeSet<ProviderUuid>>,
}

/// What came of the wish to reset a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleaning {
    /// No guest has it, and none can claim it until the reset has ended.
    Begun,
    /// A guest has it.
    Held(ConsumerUuid),
    /// It is being reset already.
    UnderWay,
}

/// Whether a quarantine outlasts a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineStays {
    /// It does: an operator only wanted the device reset.
    Yes,
    No,
}

/// The result of a device's reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CleaningOutcome {
    Clean {
        /// The release of the handle that the reset followed, if the device has a handle.
        releases: Option<i64>,
        /// Whether the device's quarantine stays.
        quarantine: QuarantineStays,
    },
    /// The reset failed; the device must be quarantined.
    Spoilt(Quarantine),
    /// The result is unknown; the device still needs a reset.
    Unknown,
}

/// Why a guest may not claim a device now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Withheld {
    /// It is being reset, which ends by itself.
    Resetting,
    /// It is in quarantine, for this reason.
    Quarantined(String),
}

impl fmt::Display for Withheld {
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
