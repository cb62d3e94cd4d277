//! Scheduler hints.

use std::collections::BTreeMap;

/// The user's wishes for the place of an instance: a list of texts by name. Nova reads a list of one as its element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints(BTreeMap<String, Vec<String>>);

impl Hints {
    /// By name.
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

    /// Whether the user gave it, be it empty.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All texts of a hint; none where it is not given.
    #[must_use]
    pub fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The one text of a hint; none where there is another number of them.
    #[must_use]
    pub fn one(&self, name: &str) -> Option<&str> {
        match self.all(name) {
            [one] => Some(one),
            _ => None,
        }
    }

    /// All texts of a hint that says something: none for one that is not given, has no text, or an empty one alone.
    #[must_use]
    pub fn said(&self, name: &str) -> Option<&[String]> {
        match self.all(name) {
            [] => None,
            [one] if one.is_empty() => None,
            some => Some(some),
        }
    }

    /// Whether an instance is rebuilt where it is: then only filters that look at its new image are asked.
    #[must_use]
    pub fn is_rebuild(&self) -> bool {
        self.all("_nova_check_type") == ["rebuild"]
    }
}
