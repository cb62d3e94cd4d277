//! Allocation candidates: the claims that a request could make now. Pure.
//!
//! ```text
//! query string ─► request ─► resolve (names to row ids) ─► search, tree by tree ─► document (response)
//!                                                            ├─ options: providers per part of the request
//!                                                            └─ assignment: combinations of them
//! ```
//!
//! Capacity, group policy, subtrees and traits prune combinations while they are built. The trees take turns, so that a limit
//! stops the search early and affects all trees alike. Caller: `searches`, for GET /allocation_candidates.

pub(crate) mod assignment;
pub(crate) mod document;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod search;
pub(crate) mod snapshot;

#[cfg(test)]
mod tests;

pub(crate) use document::CandidatesDocument;
pub(crate) use request::ParsedCandidatesQuery;
pub(crate) use resolve::{Meanings, NameError};
pub(crate) use search::{CandidateOrder, CandidateShuffle, SearchResult, search, search_in};
pub(crate) use snapshot::{Member, Room, Snapshot, SnapshotNames, SnapshotTree};
