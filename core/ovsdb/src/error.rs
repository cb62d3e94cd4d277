//! [`OvsdbError`]: why a transaction failed.

use std::io;
use std::time::Duration;

use berth_model::Disposition;

use crate::endpoint::OvsdbEndpoint;

/// Why a transaction failed. `Refused` had no effect; after another error the effect is unknown.
#[derive(Debug, thiserror::Error)]
pub enum OvsdbError {
    /// No server listens there.
    #[error("cannot connect to the Open vSwitch database at {endpoint}: {source}")]
    Connect {
        endpoint: OvsdbEndpoint,
        source: io::Error,
    },
    /// The connection broke before the answer.
    #[error("the connection to the Open vSwitch database at {endpoint} failed: {source}")]
    Connection {
        endpoint: OvsdbEndpoint,
        source: io::Error,
    },
    #[error("the Open vSwitch database at {endpoint} timed out after {} s", limit.as_secs_f64())]
    TimedOut {
        endpoint: OvsdbEndpoint,
        limit: Duration,
    },
    /// The answer is not one of the protocol.
    #[error("the Open vSwitch database at {endpoint} sent an unreadable answer: {reason}")]
    Unreadable {
        endpoint: OvsdbEndpoint,
        reason: String,
    },
    /// The server refused the transaction, for example because of a constraint.
    #[error(
        "the Open vSwitch database refused the transaction: {error}{}",
        in_parentheses(details)
    )]
    Refused {
        /// The error of RFC 7047, such as `constraint violation`.
        error: String,
        /// The server's explanation; may be empty.
        details: String,
    },
}

fn in_parentheses(details: &str) -> String {
    match details {
        "" => String::new(),
        details => format!(" ({details})"),
    }
}

impl OvsdbError {
    /// How a caller reacts to this error.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Refused { .. } => Disposition::Refresh,
            Self::Unreadable { .. } => Disposition::Fatal,
            Self::Connect { .. } | Self::Connection { .. } | Self::TimedOut { .. } => {
                Disposition::Retry
            }
        }
    }

    /// Whether the server's socket does not exist, so that no switch was ever started here.
    #[must_use]
    pub fn is_not_installed(&self) -> bool {
        matches!(self, Self::Connect { endpoint: OvsdbEndpoint::Unix(_), source }
            if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether a `wait` operation ended because its condition did not become true in time.
    #[must_use]
    pub fn is_wait_timeout(&self) -> bool {
        matches!(self, Self::Refused { error, .. } if error == "timed out")
    }
}
