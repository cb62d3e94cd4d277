//! The driver's answer: where an allocation goes when its inventory moves, or why it stays.

use std::fmt;

use crate::{ProviderName, ProviderUuid, ResourceClass};

/// A place for units: so many of a class on a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    /// Where.
    pub provider: ProviderUuid,
    /// Of which class: one of the move's `to`, or the old class on the old provider for units that stay.
    pub class: ResourceClass,
    /// How many, in the class's unit.
    pub amount: u64,
}

/// Why units have no new home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomelessReason {
    /// The consumer has no guest on this node: an orphan, or a migration whose guest is unknown.
    NoGuest,
    /// The consumer's guest is there, but the hypervisor's description of it cannot be read.
    UnreadableGuest,
    /// The device the guest uses is gone or not configured any more.
    DeviceGone {
        /// The device, by the name its provider would have.
        device: String,
    },
    /// The new home has no room left.
    NoRoom {
        /// The new home.
        provider: ProviderName,
    },
    /// The new home takes no such amount at once (min_unit, max_unit, step_size).
    UnitSize {
        /// The new home.
        provider: ProviderName,
    },
    /// The guest does not say which of several homes is its own.
    Unknown,
}

impl fmt::Display for HomelessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HomelessReason::NoGuest => f.write_str("no guest of this node is the consumer"),
            HomelessReason::UnreadableGuest => f.write_str("its guest cannot be read"),
            HomelessReason::DeviceGone { device } => {
                write!(f, "its device {device} is gone or not configured")
            }
            HomelessReason::NoRoom { provider } => write!(f, "no room on {provider}"),
            HomelessReason::UnitSize { provider } => {
                write!(f, "{provider} takes no such amount at once")
            }
            HomelessReason::Unknown => f.write_str("the guest does not show where they belong"),
        }
    }
}

/// Where an allocation goes when its inventory moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Homes {
    /// Exactly here; one allocation may be split over several homes. What the homes do not cover has no home for the
    /// given reason.
    At {
        /// The homes, together at most the allocation's amount.
        homes: Vec<Home>,
        /// Why a rest, if there is one, has no home.
        rest: HomelessReason,
    },
    /// Whole, with all of the consumer's other such allocations, to the first of these providers that has room for all.
    AnyOf {
        /// Of which class.
        class: ResourceClass,
        /// The providers, the best first.
        providers: Vec<ProviderUuid>,
    },
    /// Nowhere: the units are held where they are.
    Nowhere(HomelessReason),
}
