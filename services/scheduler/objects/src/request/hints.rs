//! Scheduler hints.

use std::collections::BTreeMap;

use berth_model::nearest_name;

/// The hints that Nova knows. `group` is read when the request is created, `target_cell` is not read any longer,
/// filters read the others. Plugins may read any hint.
const KNOWN: [&str; 7] = [
    "build_near_host_ip",
    "cidr",
    "different_host",
    "group",
    "query",
    "same_host",
    "target_cell",
];

/// The built-in filters that read a hint. `group` is missing: the request's server group is set before filters run.
const READERS: [(&str, &str); 5] = [
    ("build_near_host_ip", "SimpleCIDRAffinityFilter"),
    ("cidr", "SimpleCIDRAffinityFilter"),
    ("different_host", "DifferentHostFilter"),
    ("query", "JsonFilter"),
    ("same_host", "SameHostFilter"),
];

/// The user's wishes for the place of an instance: a list of texts by name. Nova reads a list of one as its element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints(BTreeMap<String, Vec<String>>);

impl Hints {
    /// The names that filters read, and those of Nova.
    pub fn known() -> impl Iterator<Item = &'static str> {
        KNOWN.into_iter()
    }

    /// The known name that is similar to an unknown hint; `None` if the hint is known or no name is similar.
    #[must_use]
    pub fn meant(name: &str) -> Option<&'static str> {
        let is_read = KNOWN.contains(&name) || name.starts_with("_nova_");
        nearest_name(name, KNOWN).filter(|_| !is_read)
    }

    /// The built-in filter that reads a hint of this name.
    #[must_use]
    pub fn reader(name: &str) -> Option<&'static str> {
        let found = READERS.iter().find(|(hint, _)| *hint == name);
        found.map(|(_, filter)| *filter)
    }

    /// The hints that none of these built-in filters reads.
    pub fn unread<'a>(&'a self, filters: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let is_read = |name: &str| match Self::reader(name) {
            Some(filter) => filters.contains(&filter),
            None => name == "group" || name.starts_with("_nova_"),
        };
        let names = self.0.keys().map(String::as_str);
        names.filter(move |name| !is_read(name))
    }

    #[must_use]
    pub fn new(hints: BTreeMap<String, Vec<String>>) -> Self {
        Self(hints)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0
            .iter()
            .map(|(name, texts)| (name.as_str(), texts.as_slice()))
    }

    /// Whether the user set the hint, even to an empty value.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All values of a hint; empty if it is not set.
    #[must_use]
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value of a hint; `None` unless it has exactly one.
    #[must_use]
    pub fn one(&self, name: &str) -> Option<&str> {
        match self.all(name) {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The texts of a hint; `None` if it is missing or empty.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<&[String]> {
        match self.all(name) {
            [] => None,
            [one] if one.is_empty() => None,
            some => Some(some),
        }
    }

    /// Whether an instance is rebuilt on its host: only filters that check the new image run.
    #[must_use]
    pub fn is_rebuild(&self) -> bool {
        self.all("_nova_check_type") == ["rebuild"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest_one() {
        for (name, meant) in [
            ("diferent_host", Some("different_host")),
            ("same-host", Some("same_host")),
            ("groups", Some("group")),
            ("same_host", None),
            ("_nova_check_type", None),
            ("rack", None),
        ] {
            assert_eq!(Hints::meant(name), meant, "{name}");
        }
    }
}
