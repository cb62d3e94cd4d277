//! The guests on a host.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::request::ImageProperties;

/// The guests on a host by UUID.
///
/// Filters search for the same few guests on every host. A host therefore stores a hash per guest, which usually
/// suffices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Instances {
    by_uuid: BTreeMap<String, Instance>,
    /// The hash of each UUID, in order.
    hashes: Vec<u64>,
}

/// A guest as filters and weighers see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instance {
    /// The id of its flavor in the API, if reported.
    pub flavorid: Option<String>,
    /// The image properties at boot.
    pub image: ImageProperties,
}

/// Guests that are searched for on many hosts. UUIDs are compared as text.
#[derive(Debug, Clone)]
pub struct InstanceQuery<'a> {
    /// In the order of their numbers.
    all: Vec<(u64, &'a str)>,
    /// The first bytes that their numbers have, a bit for each.
    first_bytes: [u64; 4],
}

impl<'a> InstanceQuery<'a> {
    #[must_use]
    pub fn new(uuids: impl IntoIterator<Item = &'a String>) -> Self {
        let numbered = uuids.into_iter().map(|uuid| (hash(uuid), uuid.as_str()));
        let mut sought: Vec<(u64, &str)> = numbered.collect();
        sought.sort_unstable();
        sought.dedup();
        let mut first_bytes = [0; 4];
        for (hash, _) in &sought {
            let (word, bit) = first_byte(*hash);
            first_bytes[word] |= bit;
        }
        Self {
            all: sought,
            first_bytes,
        }
    }

    /// Those with this hash.
    fn of_hash(&self, hash: u64) -> &[(u64, &'a str)] {
        let (word, bit) = first_byte(hash);
        if self.first_bytes[word] & bit == 0 {
            return &[];
        }
        let all = self.all.as_slice();
        let from = all.partition_point(|(it, _)| *it < hash);
        let to = all.partition_point(|(it, _)| *it <= hash);
        &all[from..to]
    }
}

impl Instances {
    #[must_use]
    pub fn new(by_uuid: BTreeMap<String, Instance>) -> Self {
        let mut hashes: Vec<u64> = by_uuid.keys().map(|uuid| hash(uuid)).collect();
        hashes.sort_unstable();
        Self { by_uuid, hashes }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_uuid.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_uuid.is_empty()
    }

    /// Whether a guest is on the host; uuids are compared letter by letter.
    #[must_use]
    pub fn contains(&self, uuid: &str) -> bool {
        self.by_uuid.contains_key(uuid)
    }

    /// The sought ones that are on the host.
    pub fn these<'a>(&'a self, sought: &'a InstanceQuery<'_>) -> impl Iterator<Item = &'a str> {
        // Two UUIDs with the same hash: each is looked up once.
        let mut last = None;
        let candidates = self
            .hashes
            .iter()
            .filter(move |it| last.replace(**it) != Some(**it));
        let found = candidates.flat_map(|it| sought.of_hash(*it));
        found.filter_map(|(_, uuid)| self.contains(uuid).then_some(*uuid))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Instance)> {
        let all = self.by_uuid.iter();
        all.map(|(uuid, instance)| (uuid.as_str(), instance))
    }

    pub fn remove(&mut self, uuid: &str) {
        if self.by_uuid.remove(uuid).is_some() {
            let hash = hash(uuid);
            let place = self.hashes.partition_point(|it| *it < hash);
            if self.hashes.get(place) == Some(&hash) {
                self.hashes.remove(place);
            }
        }
    }

    pub fn insert(&mut self, uuid: String, instance: Instance) {
        let hash = hash(&uuid);
        if self.by_uuid.insert(uuid, instance).is_none() {
            let place = self.hashes.partition_point(|it| *it < hash);
            self.hashes.insert(place, hash);
        }
    }
}

/// The position of the bit for a hash's first byte.
fn first_byte(hash: u64) -> (usize, u64) {
    let byte = hash.to_be_bytes()[0];
    (usize::from(byte / 64), 1 << (byte % 64))
}

/// A hash that is the same in every process.
fn hash(uuid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uuid.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn those_that_are_sought_are_found(
            on_host in prop::collection::btree_set("[a-e]{1,2}", 0..20),
            sought in prop::collection::vec("[a-e]{1,2}", 0..20),
        ) {
            let mut instances = Instances::default();
            for uuid in on_host.iter().chain(&on_host) {
                instances.insert(uuid.clone(), Instance::default());
            }
            let all = on_host.iter().map(|uuid| (uuid.clone(), Instance::default()));
            prop_assert_eq!(&instances, &Instances::new(all.collect()));
            let sought_ones = InstanceQuery::new(&sought);
            let found: Vec<&str> = instances.these(&sought_ones).collect();
            let as_set: BTreeSet<&str> = found.iter().copied().collect();
            prop_assert_eq!(as_set.len(), found.len());
            let expected = sought.iter().filter(|it| on_host.contains(*it));
            prop_assert_eq!(as_set, expected.map(String::as_str).collect::<BTreeSet<_>>());
        }
    }
}
