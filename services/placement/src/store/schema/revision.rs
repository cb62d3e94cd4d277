//! The schema revisions of OpenStack Placement (alembic).

use std::fmt;

/// A revision, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// All tables but one.
    Initial,
    /// From here on every provider has its root.
    Roots,
    /// From here on every consumer has a row.
    Consumers,
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

    /// The newest revision, which this release requires.
    pub const HEAD: Self = Self::FewerIndexes;

    /// The id in `alembic_version`.
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

    /// The revision of an id, if known.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.id() == id)
    }

    /// The later revisions, oldest first.
    pub fn later(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |other| *other > self)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
