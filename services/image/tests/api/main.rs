//! The Image API over the in-process router: versions, lists, images, their data, and refusals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod images;
mod refusals;
mod service;
mod versions;
