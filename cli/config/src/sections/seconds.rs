//! Options in whole seconds.

use std::time::Duration;

use serde::Deserialize as _;

pub(super) fn seconds<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_secs)
}
