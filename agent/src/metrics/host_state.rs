//! Label values of `berth_host_state_requests_total`.

/// Kind of a report to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostStateRequest {
    /// The complete host state.
    State,
    /// A heartbeat.
    Seen,
}

impl HostStateRequest {
    pub const ALL: [Self; 2] = [Self::State, Self::Seen];

    /// Value of the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Seen => "seen",
        }
    }
}

/// Result of a report to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostStateResult {
    /// The service has accepted it.
    Taken,
    /// The service knows another host state.
    Unknown,
    /// The request failed or was refused.
    Failed,
}

impl HostStateResult {
    pub const ALL: [Self; 3] = [Self::Taken, Self::Unknown, Self::Failed];

    /// Value of the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}
