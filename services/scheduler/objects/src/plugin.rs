//! Filters and weighers that are external programs.
//!
//! ```text
//! conductor --Question--> plugin (stdin/stdout) --PluginAnswer--> PluginAnswers in the request --> filter and weigher
//! ```
//!
//! This crate runs no program. Before a request is scheduled, the caller sends each enabled plugin a [`Question`] and reads a
//! [`PluginAnswer`]. The answers are stored in the request ([`PluginAnswers`]), where the filter and the weigher of the plugin's
//! name read them. If a plugin times out or sends an invalid answer, it accepts or rejects every host, as configured
//! ([`OnFailure`]). `PROGRAM --manifest` prints a [`PluginManifest`] with the plugin's kind and extra specs.

mod answer;
mod manifest;
mod outcome;
mod question;

use berth_options::choices;
use serde::{Deserialize, Serialize};

pub use answer::{AnswerError, HostAnswer, PluginAnswer, PluginVerdict};
pub use manifest::{
    ExtraSpec, ExtraSpecError, ExtraSpecType, ManifestError, PluginKind, PluginManifest,
};
pub use outcome::{FailedPlugin, PluginAnswers, PluginOutcome};
pub use question::Question;

/// The schema of questions, answers and manifests. Incompatible formats get another number.
pub const SCHEMA: &str = "berth-scheduler-plugin/1";

/// The maximum length of a plugin's name.
pub const LONGEST_NAME: usize = 64;

choices! {
    /// How hosts are treated if a plugin fails to answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum OnFailure {
        /// Fail open: the filter accepts every host, and the weigher has no effect.
        Pass = "pass",
        /// Fail closed: the filter rejects every host.
        Reject = "reject",
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    /// The name in `enabled_filters` and `weight_classes`.
    pub name: String,
    pub kind: PluginKind,
    pub on_failure: OnFailure,
    /// The multiplier of its weigher. Aggregates override it by the key `NAME_weight_multiplier`.
    pub weight_multiplier: f64,
}

/// Whether a text is a valid plugin name: letters, digits and `_`, first a letter, 64 characters at most.
#[must_use]
pub fn is_plugin_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= LONGEST_NAME
        && name.bytes().all(is_letter)
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
}
