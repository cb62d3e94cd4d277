//! The error of an observation.

use std::time::Duration;

use berth_model::Disposition;

/// Why `observe` failed. The tree in Placement stays unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The hypervisor is away or refuses the connection.
    #[error("the hypervisor at {target} does not answer: {reason}")]
    Unreachable {
        /// The hypervisor's URI, or the path of its socket.
        target: String,
        /// The message of the hypervisor or the system.
        reason: String,
    },
    /// A call timed out.
    #[error("{call} of the hypervisor at {target} timed out after {limit:?}")]
    TimedOut {
        /// The hypervisor's URI, or the path of its socket.
        target: String,
        /// The call of the hypervisor's API, by name.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The hypervisor refused a call.
    #[error("the hypervisor refused {call}: {reason}")]
    Refused {
        /// The call of the hypervisor's API, by name.
        call: &'static str,
        /// The error message of the hypervisor.
        reason: String,
    },
    /// Something the driver read is malformed.
    #[error("{origin}: {reason}")]
    Malformed {
        /// The file, document or key.
        origin: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The path of the unreadable file.
        path: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The configuration does not fit this host.
    #[error("{option}: {reason}")]
    Configuration {
        /// The option, with its section.
        option: String,
        /// What is wrong and what is expected.
        reason: String,
    },
    /// The hypervisor's library is not installed.
    #[error("{library} is not installed: {hint}")]
    LibraryMissing {
        /// The library's file name.
        library: String,
        /// How to install it.
        hint: String,
    },
}

impl ObserveError {
    /// Only an invalid configuration and a missing library are fatal; all other errors may be gone
    /// at the next observation.
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
