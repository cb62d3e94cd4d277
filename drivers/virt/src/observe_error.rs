//! Why a host could not be observed.

use std::time::Duration;

use berth_model::Disposition;

/// An `observe` that brought nothing. The tree in Placement stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The hypervisor is away or refuses the connection.
    #[error("the hypervisor at {target} does not answer: {reason}")]
    Unreachable {
        /// URI or path.
        target: String,
        /// What it or the system said.
        reason: String,
    },
    /// A call did not come back.
    #[error("{call} of the hypervisor at {target} did not come back within {limit:?}")]
    TimedOut {
        /// URI or path.
        target: String,
        /// The call.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The hypervisor refused a call.
    #[error("the hypervisor refused {call}: {reason}")]
    Refused {
        /// The call.
        call: &'static str,
        /// What it said.
        reason: String,
    },
    /// Something that was read makes no sense.
    #[error("{origin}: {reason}")]
    Malformed {
        /// The file, document or key.
        origin: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The configuration does not fit this host.
    #[error("{option}: {reason}")]
    Configuration {
        /// The option, with its section.
        option: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The hypervisor's library is not installed.
    #[error("{library} is not installed: {mend}")]
    LibraryMissing {
        /// The library's file name.
        library: String,
        /// What to do.
        mend: String,
    },
}

impl ObserveError {
    /// Everything but a configuration that does not fit and a missing library may be well at the next look.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            ObserveError::Configuration { .. } | ObserveError::LibraryMissing { .. } => {
                Disposition::Fatal
            }
            _ => Disposition::Retry,
        }
    }
}
