//! What a loop should do about an error.

/// Each error family answers this one question; loops look only at it, never at an error's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The same again, later: the other side was away or busy.
    Retry,
    /// Read the facts again and plan anew: somebody else changed them.
    Refresh,
    /// Neither helps: an operator must act.
    Fatal,
}
