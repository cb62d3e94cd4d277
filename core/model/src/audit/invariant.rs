//! The names of the invariants, and what a broken one looks like.

use std::fmt;

/// A promise that is judged. S: always; L: at rest. The numbers are those of the fault plan; the missing ones come with
/// the parts they speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvariantId {
    /// Per provider and class: usage within capacity, or held, or not grown since the beginning.
    S1,
    /// A reshape conserves every consumer's amounts and changes nothing outside the tree.
    S2,
    /// A device belongs to at most one guest.
    S3,
    /// A guest has the devices that are bound for it, no fewer and no others.
    S4,
    /// Between two owners of a device lies a verified reset.
    S5,
    /// Every acknowledged write survives until a later one replaces it.
    S8,
    /// Nothing without a cause: each row was there before or belongs to a request that was sent.
    S9,
    /// Generations only grow, and each has one winner.
    S10,
    /// Trees are trees: one root per node, no ring, names unique; a refused reshape leaves exactly the rows from before.
    S11,
    /// Loops are bounded: requests per minute, and a pause between failures that is neither zero nor above its cap.
    S12,
    /// No panic, exit codes are the documented ones, no secret in any text.
    S13,
    /// Of several agents that claim one host, at most one writes.
    S14,
    /// Guests of a server group that are to be apart are.
    S15,
    /// Every journey has ended, with a reason where it is not done.
    L1,
    /// An allocation has its guest, or is held and reported; a guest has its allocation.
    L2,
    /// A request is bound for a guest that is there; none of another state is left.
    L3,
    /// A device that nobody has is reset, or in quarantine.
    L4,
    /// Placement has what the driver desires, held units apart.
    L5,
    /// Quiet: further ticks write nothing and ask at most once.
    L7,
    /// What the APIs say is what is beneath them.
    L8,
    /// The members of a server group are its guests, where they are.
    L9,
}

impl InvariantId {
    /// All of them.
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

    /// The promise in one sentence.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            InvariantId::S1 => "usage is within capacity, held, or not grown",
            InvariantId::S2 => {
                "a reshape conserves every amount and changes nothing outside the tree"
            }
            InvariantId::S3 => "a device belongs to at most one guest",
            InvariantId::S4 => "a guest has the devices that are bound for it",
            InvariantId::S5 => "between two owners of a device lies a reset",
            InvariantId::S8 => "an acknowledged write survives",
            InvariantId::S9 => "nothing is there without a cause",
            InvariantId::S10 => "generations only grow, and each has one winner",
            InvariantId::S11 => "trees are trees, and a refused reshape leaves no trace",
            InvariantId::S12 => "loops are bounded and pause",
            InvariantId::S13 => "no panic, no unknown exit code, no secret in a text",
            InvariantId::S14 => "one agent at most writes for a host",
            InvariantId::S15 => "guests that are to be apart are",
            InvariantId::L1 => "every journey has ended with a reason",
            InvariantId::L2 => "allocations and guests belong to each other",
            InvariantId::L3 => "requests are bound for guests that are there",
            InvariantId::L4 => "a device that nobody has is clean or set aside",
            InvariantId::L5 => "Placement has what the driver desires",
            InvariantId::L7 => "a settled node is quiet",
            InvariantId::L8 => "what the APIs say is what is beneath them",
            InvariantId::L9 => "the members of a server group are its guests, where they are",
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

/// A broken promise: which, and how it shows. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Violation {
    /// Which promise.
    pub invariant: InvariantId,
    /// What was found.
    pub finding: String,
}

impl Violation {
    pub(super) fn of(invariant: InvariantId, finding: impl Into<String>) -> Self {
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
