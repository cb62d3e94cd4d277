//! Host aggregates: keys and values that an operator gives to groups of hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

/// One aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aggregate {
    /// Placement's; none where only metadata matter.
    pub uuid: Option<String>,
    /// The operator's name for it.
    pub name: String,
    /// What filters and weighers read.
    pub metadata: BTreeMap<String, String>,
}

/// The aggregates of one host. Hosts of the same aggregates share one value, and [`Aggregates::is`] tells so at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aggregates(Arc<[Arc<Aggregate>]>);

impl Aggregates {
    /// In the order in which they were told.
    #[must_use]
    pub fn new(aggregates: Vec<Arc<Aggregate>>) -> Self {
        Self(aggregates.into())
    }

    /// Whether both are one value: a verdict by aggregates on the one is a verdict on the other.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// All.
    pub fn iter(&self) -> impl Iterator<Item = &Aggregate> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// The values of a key, as they stand, of each aggregate that has it.
    pub fn raw<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter_map(move |one| one.metadata.get(key).map(String::as_str))
    }

    /// The values of a key, each parted at its commas, without blanks around.
    pub fn split<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.raw(key).flat_map(parts)
    }
}

/// The parts of a value, without blanks around.
pub(crate) fn parts(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}
