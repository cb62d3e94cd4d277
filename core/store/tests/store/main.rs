//! Tests of the stores: SQL databases, and files in the state directory.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod sql;
mod state_dir;
