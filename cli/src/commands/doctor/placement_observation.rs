//! What Placement answered to the doctor's probe.

use std::time::SystemTime;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementObservation {
    /// No request was sent, with the reason.
    NotAsked(String),
    /// The configuration names no Placement, and none runs on this host.
    NotConfigured {
        /// The socket that a Placement on this host would have.
        socket: String,
    },
    /// The login failed, so even Placement's address may be unknown.
    NoLogin {
        /// What failed, with its causes.
        error: String,
    },
    /// Placement does not answer.
    Away {
        /// What failed, with its causes.
        error: String,
    },
    Answered(Answers),
}

/// The answers of a reachable Placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    pub endpoint: String,
    /// Its clock (the `Date` header).
    pub date: Option<SystemTime>,
    /// N of the highest microversion 1.N of its version document.
    pub highest_minor: Option<u16>,
    /// The status of a read that needs a valid login.
    pub read_status: u16,
    /// The status of an empty `POST /reshaper`, which changes nothing: 400 with the right role, 403 without.
    pub reshaper_status: u16,
}
