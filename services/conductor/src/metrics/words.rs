//! The words for how a search and a claim end, and for the stages of a boot.

/// How a search for a guest's host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SearchOutcome {
    /// A host was found and claimed.
    Selected,
    /// No host came through the filters.
    NoValidHost,
    /// Placement has no candidate, or none that was not tried in vain.
    NoCandidates,
    /// Hosts came through, and somebody else was quicker with each candidate.
    AllTaken,
    /// Of the hosts that Placement names the scheduler knows none, or reaches no agent.
    Unknown,
    /// It was not decided: a service did not answer, the server group changed, or the guest is to end.
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

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimResult {
    /// It is the guest's.
    Granted,
    /// Somebody else was there first.
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

/// A stage of a boot, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BootStage {
    /// A host is searched and claimed.
    Place,
    /// Accelerator requests are made.
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
