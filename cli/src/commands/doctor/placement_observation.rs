//! What Placement answered when it was asked, as the checks judge it.

use std::time::SystemTime;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementObservation {
    /// It was not asked, and why.
    NotAsked(String),
    /// The login failed, so that even its address may be unknown.
    NoLogin {
        /// What failed, with its causes.
        error: String,
    },
    /// It does not answer.
    Away {
        /// What failed, with its causes.
        error: String,
    },
    Answered(Answers),
}

/// The answers of a Placement that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    pub endpoint: String,
    /// Its clock (the `Date` header).
    pub date: Option<SystemTime>,
    /// N of the highest microversion 1.N of its version document.
    pub highest_minor: Option<u16>,
    /// Status of a read that needs a valid login.
    pub read_status: u16,
    /// Status of an empty `POST /reshaper`, which changes nothing: 400 with the right role, 403 without.
    pub reshaper_status: u16,
}
