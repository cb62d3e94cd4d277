//! What became of the plugins that were asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{OnFailure, PluginAnswer};
use crate::text::shortened;

/// What became of one plugin.
#[derive(Debug, Clone, PartialEq)]
pub enum PluginOutcome {
    Answered(PluginAnswer),
    /// It did not, or what it answered is none.
    Failed {
        /// What became of it, in a sentence.
        failure: Arc<str>,
        /// What becomes of hosts now.
        on_failure: OnFailure,
    },
}

impl PluginOutcome {
    /// It did not answer; of a longer sentence the beginning is kept.
    #[must_use]
    pub fn failed(failure: &str, on_failure: OnFailure) -> Self {
        Self::Failed {
            failure: shortened(failure).into(),
            on_failure,
        }
    }
}

/// What became of all that were asked for a request, by their names. Copies share it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginAnswers(Arc<BTreeMap<String, PluginOutcome>>);

impl PluginAnswers {
    /// By the plugins' names.
    #[must_use]
    pub fn new(outcomes: BTreeMap<String, PluginOutcome>) -> Self {
        Self(Arc::new(outcomes))
    }

    /// What became of a plugin; none: it was not asked.
    #[must_use]
    pub fn of(&self, plugin: &str) -> Option<&PluginOutcome> {
        self.0.get(plugin)
    }

    /// Those that did not answer, for who asks why.
    pub(crate) fn failed(&self) -> Vec<FailedPlugin> {
        let failed = self.0.iter().filter_map(|(name, outcome)| match outcome {
            PluginOutcome::Answered(_) => None,
            PluginOutcome::Failed {
                failure,
                on_failure,
            } => Some(FailedPlugin {
                plugin: name.clone(),
                failure: failure.to_string(),
                on_failure: *on_failure,
            }),
        });
        failed.collect()
    }
}

/// A plugin that did not answer, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("The plugin {plugin} was not heard, so {}: {failure}", meanwhile(*on_failure))]
pub struct FailedPlugin {
    pub plugin: String,
    /// What became of it, in a sentence.
    pub failure: String,
    /// What became of hosts.
    pub on_failure: OnFailure,
}

fn meanwhile(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Pass => "it counted for nothing",
        OnFailure::Reject => "it rejected every host",
    }
}
