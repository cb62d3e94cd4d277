//! The words for what the scheduler was told, and what came of it.

/// What it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostStateRequest {
    /// The host's whole state.
    State,
    /// That the agent lives.
    Seen,
}

impl HostStateRequest {
    pub const ALL: [Self; 2] = [Self::State, Self::Seen];

    /// The word in labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Seen => "seen",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostStateResult {
    /// It is known now.
    Taken,
    /// Another state is known.
    Unknown,
    /// There was no answer, or a refusal.
    Failed,
}

impl HostStateResult {
    pub const ALL: [Self; 3] = [Self::Taken, Self::Unknown, Self::Failed];

    /// The word in labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}
