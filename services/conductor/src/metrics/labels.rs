//! Label values of searches, claims and boot stages.

/// Outcome of a host search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SearchOutcome {
    Selected,
    /// No host passed the filters.
    NoValidHost,
    /// Placement has no candidate that earlier attempts did not fail on.
    NoCandidates,
    /// All candidates were claimed by other requests.
    AllTaken,
    /// The scheduler knows none of the candidate hosts, or reaches none of their agents.
    Unknown,
    /// Undecided: a service failed, the server group changed, or the guest is being deleted.
    Undecided,
}

impl SearchOutcome {
    pub(crate) const ALL: [Self; 6] = [
        Self::Selected,
        Self::NoValidHost,
        Self::NoCandidates,
        Self::AllTaken,
        Self::Unknown,
        Self::Undecided,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Selected => "selected",
            Self::NoValidHost => "no_valid_host",
            Self::NoCandidates => "no_candidates",
            Self::AllTaken => "all_taken",
            Self::Unknown => "unknown",
            Self::Undecided => "undecided",
        }
    }
}

/// Result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimResult {
    Granted,
    /// Another request was first.
    Refused,
}

impl ClaimResult {
    pub(crate) const ALL: [Self; 2] = [Self::Granted, Self::Refused];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
        }
    }
}

/// The stages of a boot, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BootStage {
    /// Search and claim of a host.
    Place,
    /// Creation of accelerator requests.
    Provide,
    Bind,
    /// The host's agent builds the guest.
    Build,
}

impl BootStage {
    pub(crate) const ALL: [Self; 4] = [Self::Place, Self::Provide, Self::Bind, Self::Build];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Provide => "provide",
            Self::Bind => "bind",
            Self::Build => "build",
        }
    }
}
