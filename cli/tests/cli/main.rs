//! Tests of the program: its commands, and the files that are generated from it.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod alone;
mod command_line;
mod config_import;
mod doctor;
mod examples;
mod generated;
mod systemd;
