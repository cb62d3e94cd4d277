//! [`NovaTime`]: a time as Nova's objects write it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999, which is the last that the format has.
const LAST_SECOND: u64 = 253_402_300_799;

/// A time in whole seconds of UTC, written as `2026-11-20T15:31:06Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NovaTime(u64);

impl NovaTime {
    /// Seconds since 1970. A time after the year 9999 becomes the last second of that year.
    #[must_use]
    pub fn from_unix_seconds(seconds: u64) -> Self {
        Self(seconds.min(LAST_SECOND))
    }

    #[must_use]
    pub fn unix_seconds(self) -> u64 {
        self.0
    }
}

impl From<SystemTime> for NovaTime {
    /// A time before 1970 becomes the beginning of 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix_seconds(since.as_secs())
    }
}

impl fmt::Display for NovaTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = UNIX_EPOCH + Duration::from_secs(self.0);
        write!(f, "{}", humantime::format_rfc3339_seconds(time))
    }
}

/// The text is not a time of Nova.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time such as 2026-11-20T15:31:06Z")]
pub struct NotATime(pub String);

impl FromStr for NovaTime {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = || NotATime(text.chars().take(32).collect());
        if text.len() != "2026-11-20T15:31:06Z".len() {
            return Err(refuse());
        }
        humantime::parse_rfc3339(text)
            .map(Self::from)
            .map_err(|_| refuse())
    }
}
