//! Tests of programs that an operator names.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod answer;
mod run;
mod script_process;
