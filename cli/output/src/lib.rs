//! What every command prints: lists ([`Listing`]), failures ([`Failure`]) with their numbers ([`ErrorCode`]) and exit codes
//! ([`ExitCode`]), progress, and writers that keep control characters from a terminal.
//!
//! A command returns a [`Failure`]; the program prints it once and exits with its code.

pub mod colour;
mod error_code;
pub mod escape;
mod exit;
mod failure;
mod listing;
pub mod progress;

pub use error_code::ErrorCode;
pub use exit::{ExitCode, ExitCodeMeaning};
pub use failure::{Failure, sentence};
pub use listing::{API, FormatKind, ListFormat, Listing};
