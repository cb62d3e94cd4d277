//! The id of an action, which makes repeated requests idempotent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The query parameter of POST /v1/guests/{uuid}/action: 1 to 64 ASCII letters, digits, `.`, `_` and `-`. The agent
/// stores the last one per guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActionId(String);

/// A text that is no [`ActionId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an action's id has 1 to 64 letters of ASCII, digits, '.', '_' and '-'")]
pub struct NoActionId;

impl ActionId {
    /// The longest, in bytes.
    const LONGEST: usize = 64;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ActionId {
    type Error = NoActionId;

    fn try_from(text: String) -> Result<Self, NoActionId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match (1..=Self::LONGEST).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Self(text)),
            false => Err(NoActionId),
        }
    }
}

impl FromStr for ActionId {
    type Err = NoActionId;

    fn from_str(text: &str) -> Result<Self, NoActionId> {
        text.to_owned().try_into()
    }
}

impl From<ActionId> for String {
    fn from(id: ActionId) -> Self {
        id.0
    }
}

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
