//! The agent of a host, as a service.

/// What is known of it. Moments are seconds before the request's "now", so that nothing here needs a clock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Service {
    /// By its operator, or by itself after too many failed builds.
    pub disabled: bool,
    pub disabled_reason: Option<String>,
    /// By an operator who knows that it is dead.
    pub forced_down: bool,
    /// Seconds since it was last heard of; negative where its clock is ahead; none: never.
    pub last_seen_age_s: Option<f64>,
    /// Seconds since it was first known.
    pub created_age_s: Option<f64>,
}
