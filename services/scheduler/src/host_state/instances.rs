//! The guests on a host.

use std::collections::{BTreeMap, BTreeSet};

use crate::request::ImageProperties;

/// The guests on a host, by uuid.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Instances(BTreeMap<String, Instance>);

/// What filters and weighers know of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// The id of its flavor in the API; none where the host does not tell.
    pub flavorid: Option<String>,
    /// The image properties that it was booted with.
    pub image: ImageProperties,
}

impl Instances {
    /// By uuid.
    #[must_use]
    pub fn new(by_uuid: BTreeMap<String, Instance>) -> Self {
        Self(by_uuid)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a guest is on the host; uuids are compared letter by letter.
    #[must_use]
    pub fn contains(&self, uuid: &str) -> bool {
        self.0.contains_key(uuid)
    }

    /// How many of these are on the host.
    #[must_use]
    pub fn count_of(&self, uuids: &BTreeSet<String>) -> usize {
        match self.0.len() < uuids.len() {
            true => self.0.keys().filter(|it| uuids.contains(*it)).count(),
            false => uuids.iter().filter(|it| self.contains(it)).count(),
        }
    }

    /// All, by uuid.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Instance)> {
        self.0
            .iter()
            .map(|(uuid, instance)| (uuid.as_str(), instance))
    }

    /// One more.
    pub fn insert(&mut self, uuid: String, instance: Instance) {
        self.0.insert(uuid, instance);
    }
}
