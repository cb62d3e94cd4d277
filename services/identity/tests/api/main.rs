//! Tests of the Identity API over the in-process router, the users file and the lifetime of tokens, by object.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod bad_input;
mod catalog;
mod files;
mod generated;
mod kills;
mod limits;
mod place;
mod reading;
mod schema;
mod service;
mod tokens;
mod validate;
mod void;
