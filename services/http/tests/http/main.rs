//! Tests of the parts that all built-in services share.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod audit;
mod listener;
mod operation;
mod parsers;
mod policy;
mod service_layer;
