//! Why a host was rejected: a closed vocabulary. A reason has the two values that were compared, so nobody has to read a log.

use std::fmt;

use serde::Serialize;

/// As JSON an object: `code`, and the values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// Its operator disabled it.
    ServiceDisabled {
        /// What the operator says; none where nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        disabled_reason: Option<String>,
    },
    /// Its operator said that it is down.
    ServiceForcedDown,
    /// Its agent was not heard of for too long.
    ServiceDown {
        /// Seconds since; none: never heard of.
        last_seen_age_s: Option<f64>,
        /// Seconds that are allowed.
        service_down_time: f64,
    },
    /// It has as many guests as it may have.
    TooManyInstances {
        /// Guests on it.
        num_instances: i64,
        /// The number at which it is full.
        max_instances_per_host: i64,
    },
}

/// One sentence.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceDisabled {
                disabled_reason: None,
            } => write!(f, "its service is disabled"),
            Self::ServiceDisabled {
                disabled_reason: Some(why),
            } => write!(f, "its service is disabled: {why}"),
            Self::ServiceForcedDown => write!(f, "its service is forced down"),
            Self::ServiceDown {
                last_seen_age_s: None,
                ..
            } => write!(f, "its service was never heard of"),
            Self::ServiceDown {
                last_seen_age_s: Some(age),
                service_down_time,
            } => write!(
                f,
                "its service was last heard of {age} s ago; {service_down_time} s are allowed"
            ),
            Self::TooManyInstances {
                num_instances,
                max_instances_per_host,
            } => write!(
                f,
                "it has {num_instances} instances, and {max_instances_per_host} are too many"
            ),
        }
    }
}
