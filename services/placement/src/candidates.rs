//! Allocation candidates: which claims a request could make now. Pure.
//!
//! A query string is read (`request`), its names are looked up (`resolve`), and the search goes tree by tree over a
//! [`Snapshot`], of all trees or of those that could serve the request: for each tree the providers that could serve each part of the request (`options`), then the combinations of
//! them (`assignment`), one at a time. Capacity, group policy, subtrees and traits prune while a combination is built, and the
//! trees take turns (`search`), so that a limit cuts before anything is built that nobody will see, and cuts every tree alike.
//! What was found is written as the API shows it (`document`).
//!
//! Caller: `searches`, for the handler of GET /allocation_candidates.

pub(crate) mod assignment;
pub(crate) mod document;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod resolve;
pub(crate) mod search;
pub(crate) mod snapshot;

#[cfg(test)]
mod tests;

pub(crate) use document::Document;
pub(crate) use request::CandidatesQuery;
pub(crate) use resolve::{Meanings, NameError};
pub(crate) use search::{Dice, Found, Order, search, search_in};
pub(crate) use snapshot::{Member, Names, Room, Snapshot, Tree};
