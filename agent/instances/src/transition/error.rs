//! Why a guest's life did not change.

use berth_model::{ConsumerUuid, Disposition};

use crate::outcome::BlockedReason;
use crate::power::PowerError;
use crate::resources::ResourceError;

/// Why a guest's life did not change.
#[derive(Debug, thiserror::Error)]
pub enum TransitionError {
    /// It cannot be now, for a reason that a change of its power would have, too.
    #[error(transparent)]
    Power(#[from] PowerError),
    /// An image or a device is not to be had. The guest is as it was.
    #[error("nothing was done to the guest: {0}")]
    Resource(#[from] ResourceError),
    /// It is rescued already.
    #[error("guest {uuid} is rescued; unrescue it first")]
    Rescued { uuid: ConsumerUuid },
    /// It is not rescued.
    #[error("guest {uuid} is not rescued")]
    NotRescued { uuid: ConsumerUuid },
    /// Its disks are its maker's.
    #[error(
        "guest {uuid} has no root disk that this agent made: only one that was made of an image, or empty by its size, is \
         {what}"
    )]
    NotItsDisks {
        uuid: ConsumerUuid,
        /// `rescued from an image` or `rebuilt`.
        what: &'static str,
    },
    /// It has begun, and stands still; it is tried again.
    #[error("guest {uuid} stands still on its context, and is tried again: {reason}")]
    Held {
        uuid: ConsumerUuid,
        #[source]
        reason: Box<BlockedReason>,
    },
    /// It was deleted meanwhile, or the agent stops.
    #[error("guest {uuid} was deleted meanwhile, or the agent stops and goes on at its next start")]
    Overtaken { uuid: ConsumerUuid },
}

impl TransitionError {
    /// What a loop does about it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Resource(error) => error.disposition(),
            Self::Power(_) | Self::Rescued { .. } | Self::NotRescued { .. } => Disposition::Refresh,
            Self::Held { .. } | Self::Overtaken { .. } => Disposition::Retry,
            Self::NotItsDisks { .. } => Disposition::Fatal,
        }
    }
}
