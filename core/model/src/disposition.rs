//! What a loop should do about an error.

/// What a loop does about an error. Each error type has a `disposition()`; loops decide by it and never by the text of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Repeat the same later: the other side was unavailable or busy.
    Retry,
    /// Read the facts and plan again: another writer changed them.
    Refresh,
    /// Do not repeat: an operator must act.
    Fatal,
}
