//! Options of the configuration, each declared once, in the crate that reads it.
//!
//! ```
//! use berth_options::{OptionGroup, options, seconds};
//! use std::time::Duration;
//!
//! options! {
//!     /// How long things take. (This is the section's text in the reference.)
//!     #[derive(Debug, Clone)]
//!     pub struct PaceOptions in "pace" {
//!         /// Seconds between two checks. (This is the option's text in the reference.)
//!         pub interval: Duration = seconds(60), kind: Integer(1, 3600), effect: Live;
//!         /// The name to greet.
//!         pub greeting: Option<String> = None, example: "\"Hello\"";
//!     }
//! }
//!
//! assert_eq!(PaceOptions::default().interval, seconds(60));
//! assert_eq!(PaceOptions::ROWS[0].default_value(), Some(60.into()));
//! ```
//!
//! [`options!`] declares the struct and implements `Default` and [`OptionGroup`] for it: the rows for checks and the reference, and the
//! function that reads checked values. After a default, `field: value` overrides a field of the [`OptionRow`]. The [`OptionKind`] follows
//! from the type unless `kind` sets it. Types are `bool`, numbers, texts, paths, IP addresses, [`ListenAddress`], `Option` and `Vec` of them, [`choices!`] for
//! words, and [`text_type!`] for other types that are written as texts. `berth-config` lists the groups, reads files and environment, and
//! reports problems.
//!
//! [`document`] reads the other TOML files of operators: users, machines of the fake driver.

pub mod document;
mod group;
mod kind;
mod row;
pub mod text;
mod types;

pub use group::{CheckedValues, OptionGroup, OptionMisfit, OptionValue, RowGroup};
pub use kind::{OptionKind, ValueError, ValueFault};
pub use row::{OptionEffect, OptionRow};
pub use serde_json::{Map, Value as Json};
pub use text::{FileRole, TablesKind, TextKind, WrongElement, WrongText};
pub use types::{ListItem, ListenAddress, OptionType, seconds, texts};

/// Seconds of a week, the longest interval of many options.
pub const WEEK: i64 = 604_800;
