//! Records of where guests were put, and why.

use std::time::Duration;

/// What is kept of past decisions; the oldest go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordBounds {
    /// So many at most.
    pub count: u32,
    /// None that is older.
    pub age: Duration,
}

impl Default for RecordBounds {
    fn default() -> Self {
        Self {
            count: 10_000,
            age: Duration::from_secs(7 * 24 * 3_600),
        }
    }
}
