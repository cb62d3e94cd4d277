//! The compute service of a host.

/// The state of the service. Times are ages in seconds, so that no clock is needed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceState {
    /// Disabled by an operator, or by the service itself after too many failed builds.
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    /// Declared down by an operator.
    pub forced_down: bool,
    /// Seconds since the last heartbeat; negative if its clock is ahead; `None` without one.
    pub last_seen_age_s: Option<f64>,
    /// Seconds since it was first registered.
    pub created_age_s: Option<f64>,
}

impl ServiceState {
    /// An enabled service whose last heartbeat is zero seconds old.
    pub(crate) fn reported_now() -> Self {
        Self {
            last_seen_age_s: Some(0.0),
            ..Self::default()
        }
    }
}
