//! Homes: where the driver sends an allocation when its inventory moves, or why it has to stay.

use std::fmt;

use crate::{ProviderName, ProviderUuid, ResourceClass};

/// An amount of a class on a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    /// The provider that the units move to.
    pub provider: ProviderUuid,
    /// The class: one of the move's `to`, or the old class on the old provider for units that stay.
    pub class: ResourceClass,
    /// The amount, in the unit of the class.
    pub amount: u64,
}

/// Why units have no new home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomelessReason {
    /// The consumer has no guest on this node: an orphan, or a migration with an unknown guest.
    NoGuest,
    /// The consumer's guest exists, but its definition on the hypervisor cannot be read.
    UnreadableGuest,
    /// The device of the guest is gone or no longer configured.
    DeviceGone {
        /// The device, by the name its provider would have.
        device: String,
    },
    /// The new home has no room left.
    NoRoom {
        /// The provider that should be the new home.
        provider: ProviderName,
    },
    /// The new home does not allow this amount for one consumer (min_unit, max_unit, step_size).
    UnitSize {
        /// The provider that should be the new home.
        provider: ProviderName,
    },
    /// The guest does not identify one of several homes.
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
    /// Exactly these homes; one allocation may be split. The rest has no home, for the given reason.
    At {
        /// The homes, together at most the allocation's amount.
        homes: Vec<Home>,
        /// Why the rest, if any, has no home.
        rest: HomelessReason,
    },
    /// The first of these providers with room for this allocation and all other ones of the consumer with the same list.
    AnyOf {
        /// The resource class that does not fit there.
        class: ResourceClass,
        /// The providers, in order of preference.
        providers: Vec<ProviderUuid>,
    },
    /// No home: the units are held where they are.
    Nowhere(HomelessReason),
}
