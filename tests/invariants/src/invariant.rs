//! The identifiers of the invariants, and violations of them.

use std::fmt;

/// An invariant. S (safety): holds at any time. L (liveness): holds at rest. Some numbers are unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvariantId {
    /// Per provider and class: usage within capacity, or held, or not grown since the beginning.
    S1,
    /// A reshape conserves every consumer's amounts and changes nothing outside the tree.
    S2,
    /// A device belongs to at most one guest.
    S3,
    /// A guest has exactly the devices that are bound for it.
    S4,
    /// A device is reset and verified between two owners.
    S5,
    /// Every acknowledged write survives until a later one replaces it.
    S8,
    /// Each row existed at the start or was written by a request.
    S9,
    /// Generations only grow, and each has one winner.
    S10,
    /// Provider trees are valid: one root per node, no cycle, unique names. A refused reshape leaves all rows unchanged.
    S11,
    /// Loops are bounded: requests per minute, and a pause between failures that is neither zero nor above its cap.
    S12,
    /// No panic, exit codes are the documented ones, no secret in any text.
    S13,
    /// Of several agents that claim one host, at most one writes.
    S14,
    /// The guests of an anti-affinity group are on different hosts.
    S15,
    /// Every task has ended, with a reason if it is not done.
    L1,
    /// Each allocation has its guest, or is held and reported. Each guest has its allocation.
    L2,
    /// Each ARQ is bound for a guest that exists; none is in another state.
    L3,
    /// An unallocated device is reset, or in quarantine.
    L4,
    /// Placement has the desired tree of the driver, except held units.
    L5,
    /// Further ticks of a settled node write nothing and read at most once.
    L7,
    /// Each API lists exactly the guests that exist.
    L8,
    /// The members of a server group are its guests, on the hosts where they run.
    L9,
}

impl InvariantId {
    pub const ALL: [InvariantId; 21] = [
        InvariantId::S1,
        InvariantId::S2,
        InvariantId::S3,
        InvariantId::S4,
        InvariantId::S5,
        InvariantId::S8,
        InvariantId::S9,
        InvariantId::S10,
        InvariantId::S11,
        InvariantId::S12,
        InvariantId::S13,
        InvariantId::S14,
        InvariantId::S15,
        InvariantId::L1,
        InvariantId::L2,
        InvariantId::L3,
        InvariantId::L4,
        InvariantId::L5,
        InvariantId::L7,
        InvariantId::L8,
        InvariantId::L9,
    ];

    /// Whether it is judged only at rest.
    #[must_use]
    pub const fn is_at_rest(self) -> bool {
        matches!(
            self,
            InvariantId::L1
                | InvariantId::L2
                | InvariantId::L3
                | InvariantId::L4
                | InvariantId::L5
                | InvariantId::L7
                | InvariantId::L8
                | InvariantId::L9
        )
    }

    /// The invariant in one sentence.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            InvariantId::S1 => "usage is within capacity, held, or not grown",
            InvariantId::S2 => {
                "a reshape conserves every amount and changes nothing outside the tree"
            }
            InvariantId::S3 => "a device belongs to at most one guest",
            InvariantId::S4 => "a guest has the devices that are bound for it",
            InvariantId::S5 => "a device is reset between two owners",
            InvariantId::S8 => "an acknowledged write survives",
            InvariantId::S9 => "each row was written by a request",
            InvariantId::S10 => "generations only grow, and each has one winner",
            InvariantId::S11 => "provider trees are valid, and a refused reshape changes nothing",
            InvariantId::S12 => "loops are bounded and pause",
            InvariantId::S13 => "no panic, no unknown exit code, no secret in a text",
            InvariantId::S14 => "one agent at most writes for a host",
            InvariantId::S15 => "guests of an anti-affinity group are on different hosts",
            InvariantId::L1 => "every task has ended with a reason",
            InvariantId::L2 => "allocations and guests match",
            InvariantId::L3 => "requests are bound for guests that exist",
            InvariantId::L4 => "an unallocated device is clean or in quarantine",
            InvariantId::L5 => "Placement has what the driver desires",
            InvariantId::L7 => "a settled node sends nothing",
            InvariantId::L8 => "each API lists the guests that exist",
            InvariantId::L9 => "the members of a server group are its guests, on their hosts",
        }
    }
}

impl fmt::Display for InvariantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            InvariantId::S1 => "S1",
            InvariantId::S2 => "S2",
            InvariantId::S3 => "S3",
            InvariantId::S4 => "S4",
            InvariantId::S5 => "S5",
            InvariantId::S8 => "S8",
            InvariantId::S9 => "S9",
            InvariantId::S10 => "S10",
            InvariantId::S11 => "S11",
            InvariantId::S12 => "S12",
            InvariantId::S13 => "S13",
            InvariantId::S14 => "S14",
            InvariantId::S15 => "S15",
            InvariantId::L1 => "L1",
            InvariantId::L2 => "L2",
            InvariantId::L3 => "L3",
            InvariantId::L4 => "L4",
            InvariantId::L5 => "L5",
            InvariantId::L7 => "L7",
            InvariantId::L8 => "L8",
            InvariantId::L9 => "L9",
        };
        f.pad(name)
    }
}

/// A violated invariant and what was found. Never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Violation {
    pub invariant: InvariantId,
    pub finding: String,
}

impl Violation {
    pub(crate) fn of(invariant: InvariantId, finding: impl Into<String>) -> Self {
        Self {
            invariant,
            finding: finding.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.finding)
    }
}
