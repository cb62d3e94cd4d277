//! Link groups: devices of one node that a fast link connects, such as two GPUs with an NVLink bridge.
//!
//! In Placement a link group is a provider between the root and its devices, without inventory and with
//! [`crate::Trait::CUSTOM_LINK_GROUP`]. A query finds devices of one group with `same_subtree` (microversion 1.36).

use std::fmt;
use std::str::FromStr;

/// The text cannot name a link group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot name a link group: 1 to 32 of a-z, 0-9 and - are allowed")]
pub struct LinkGroupNameError {
    /// The invalid name, at most 80 characters of it.
    name: String,
}

/// The name of a link group, unique on its node: 1 to 32 of a-z, 0-9 and `-`. No capital letters, because databases compare the
/// names of providers without case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkGroupName(String);

impl LinkGroupName {
    /// Checks length and characters. Fails with [`LinkGroupNameError`].
    pub fn new(name: &str) -> Result<Self, LinkGroupNameError> {
        let is_allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        match (1..=32).contains(&name.len()) && name.bytes().all(is_allowed) {
            true => Ok(Self(name.to_owned())),
            false => Err(LinkGroupNameError {
                name: name.chars().take(80).collect(),
            }),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LinkGroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LinkGroupName {
    type Err = LinkGroupNameError;

    fn from_str(text: &str) -> Result<Self, LinkGroupNameError> {
        Self::new(text)
    }
}
