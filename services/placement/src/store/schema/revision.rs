//! The revisions of the schema, as OpenStack Placement's alembic counts them.

use std::fmt;

/// A revision, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// All tables but one.
    Initial,
    /// From here on every resource provider has its root.
    Roots,
    /// From here on everybody who has allocations has a row of its own.
    Consumers,
    /// Consumers may have types.
    ConsumerTypes,
    /// No index that a unique key is already.
    FewerIndexes,
}

impl Revision {
    /// Every one, oldest first.
    pub const ALL: [Self; 5] = [
        Self::Initial,
        Self::Roots,
        Self::Consumers,
        Self::ConsumerTypes,
        Self::FewerIndexes,
    ];

    /// The newest, which this release works on.
    pub const HEAD: Self = Self::FewerIndexes;

    /// What stands in `alembic_version`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Initial => "b4ed3a175331",
            Self::Roots => "611cd6dffd7b",
            Self::Consumers => "b5c396305c25",
            Self::ConsumerTypes => "422ece571366",
            Self::FewerIndexes => super::HEAD,
        }
    }

    /// The revision of this id, where it is one.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.id() == id)
    }

    /// Those after it, oldest first.
    pub fn later(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |other| *other > self)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
