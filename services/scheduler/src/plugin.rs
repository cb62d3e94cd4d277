//! Filters and weighers that are programs of the operator's.
//!
//! This crate runs nothing. Before a request is scheduled, the caller gives each enabled plugin a [`Question`] on its standard input
//! and reads a [`PluginAnswer`] from its standard output; the answers go into the request as values ([`PluginAnswers`]), where the
//! filter and the weigher of the plugin's name read them, at the places where `enabled_filters` and `weight_classes` name them. A
//! plugin that does not answer in time, or answers rubbish, lets every host pass or rejects every host, as its operator says
//! ([`OnFailure`]). What it is and which extra specs it reads, a plugin tells by `PROGRAM --manifest` ([`PluginManifest`]). Caller:
//! the conductor.

mod answer;
mod filter;
mod manifest;
mod outcome;
mod question;
mod weigher;

use serde::{Deserialize, Serialize};

use crate::custom_plugins::CustomPlugins;

pub use answer::{AnswerError, HostAnswer, PluginAnswer, Verdict};
pub use manifest::{
    ExtraSpec, ExtraSpecError, ExtraSpecType, ManifestError, PluginKind, PluginManifest,
};
pub use outcome::{FailedPlugin, PluginAnswers, PluginOutcome};
pub use question::Question;

use filter::PluginFilter;
use weigher::PluginWeigher;

/// What questions, answers and manifests call themselves; another number is another form of them.
pub const SCHEMA: &str = "berth-scheduler-plugin/1";

/// So many letters a plugin's name has at most.
pub const LONGEST_NAME: usize = 64;

/// What becomes of a request's hosts where a plugin does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Every host passes its filter, and its weigher counts for nothing: it fails open.
    Pass,
    /// Its filter rejects every host: it fails closed.
    Reject,
}

/// A plugin, as options name it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    /// As in `enabled_filters` and `weight_classes`.
    pub name: String,
    pub kind: PluginKind,
    /// What becomes of hosts where it does not answer.
    pub on_failure: OnFailure,
    /// Of its weigher; aggregates override it by the key `NAME_weight_multiplier`.
    pub weight_multiplier: f64,
}

impl CustomPlugins {
    /// And this plugin's filter, its weigher, or both, by what it is. They stay in memory until the program ends, so a plugin is put
    /// in once, when the program starts.
    #[must_use]
    pub fn with_plugin(mut self, plugin: &Plugin) -> Self {
        if plugin.kind.is_filter() {
            self = self.with_filter(Box::leak(Box::new(PluginFilter::new(plugin))));
        }
        if plugin.kind.is_weigher() {
            self = self.with_weigher(Box::leak(Box::new(PluginWeigher::new(plugin))));
        }
        self
    }
}

/// Whether it may be a plugin's name: letters, digits and `_`, the first a letter, 64 at most.
#[must_use]
pub fn is_plugin_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= LONGEST_NAME
        && name.bytes().all(is_letter)
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests;
