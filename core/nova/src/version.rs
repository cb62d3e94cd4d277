//! [`ObjectVersion`]: the version of a Nova object or of an RPC interface.

use std::fmt;
use std::str::FromStr;

/// A version of two numbers, such as `2.8`. Versions with one major number are compatible downwards: the newer has all that the older
/// has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectVersion {
    pub major: u32,
    pub minor: u32,
}

impl ObjectVersion {
    /// Whether a peer that knows `self` understands something of version `other`.
    #[must_use]
    pub fn understands(self, other: Self) -> bool {
        self.major == other.major && self.minor >= other.minor
    }
}

impl fmt::Display for ObjectVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The text is not a version of two numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version such as 2.8")]
pub struct NotAVersion(pub String);

impl FromStr for ObjectVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| {
            let canonical = part == "0" || !part.starts_with('0');
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            (canonical && digits).then(|| part.parse().ok()).flatten()
        };
        text.split_once('.')
            .and_then(|(major, minor)| {
                Some(Self {
                    major: number(major)?,
                    minor: number(minor)?,
                })
            })
            .ok_or_else(|| NotAVersion(text.chars().take(32).collect()))
    }
}
