//! Errors of transitions.

use berth_model::{ConsumerUuid, Disposition, GuestMachineError};

use crate::create::{BuildError, MissingCapability};
use crate::outcome::BlockedReason;
use crate::power::PowerError;
use crate::resources::ResourceError;

/// Why a transition failed.
#[derive(Debug, thiserror::Error)]
pub enum TransitionError {
    /// The transition is refused for the same reason as a power action would be.
    #[error(transparent)]
    Power(#[from] PowerError),
    /// An image or device is not available. The guest is unchanged.
    #[error("the guest is unchanged: {0}")]
    Resource(#[from] ResourceError),
    #[error("guest {uuid} is rescued; unrescue it first")]
    Rescued { uuid: ConsumerUuid },
    #[error("guest {uuid} is not rescued")]
    NotRescued { uuid: ConsumerUuid },
    /// The agent did not create the guest's root disk.
    #[error(
        "guest {uuid} has no root disk that this agent created: only a root disk from an image, or an empty one with a \
         size, can be {what}"
    )]
    NoManagedRoot {
        uuid: ConsumerUuid,
        /// `rescued from an image` or `rebuilt`.
        what: &'static str,
    },
    /// No host can build the machine that the flavor and the new image describe.
    #[error("guest {uuid} cannot be rebuilt: {error}")]
    Machine {
        uuid: ConsumerUuid,
        error: GuestMachineError,
    },
    /// This host cannot build the machine.
    #[error("guest {uuid} cannot be rebuilt on this host: {missing}")]
    Capability {
        uuid: ConsumerUuid,
        missing: MissingCapability,
    },
    /// The host cannot be observed.
    #[error("the guest is unchanged: {0}")]
    Observe(#[source] Box<BuildError>),
    /// The new image needs other firmware than the guest has.
    #[error("guest {uuid} keeps its firmware, and the image requests another one")]
    Firmware { uuid: ConsumerUuid },
    /// The transition is in progress and blocked; it is retried.
    #[error("the transition of guest {uuid} is blocked and will be retried: {reason}")]
    Blocked {
        uuid: ConsumerUuid,
        #[source]
        reason: Box<BlockedReason>,
    },
    /// The guest was deleted, or the agent stops.
    #[error(
        "the transition was interrupted: guest {uuid} was deleted, or the agent is stopping and will continue at its next start"
    )]
    Interrupted { uuid: ConsumerUuid },
}

impl TransitionError {
    /// How a caller reacts to this error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Resource(error) => error.disposition(),
            Self::Power(_) | Self::Rescued { .. } | Self::NotRescued { .. } => Disposition::Refresh,
            Self::Blocked { .. } | Self::Interrupted { .. } => Disposition::Retry,
            Self::Observe(error) => error.disposition(),
            Self::NoManagedRoot { .. }
            | Self::Machine { .. }
            | Self::Capability { .. }
            | Self::Firmware { .. } => Disposition::Fatal,
        }
    }
}
