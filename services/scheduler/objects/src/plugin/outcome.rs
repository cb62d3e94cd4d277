//! The results of the plugins for one request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{OnFailure, PluginAnswer};
use crate::text::shortened;

/// The result of one plugin.
#[derive(Debug, Clone, PartialEq)]
pub enum PluginOutcome {
    Answered(PluginAnswer),
    /// It did not answer, or its answer is invalid.
    Failed {
        /// The cause, as a sentence.
        failure: Arc<str>,
        /// How hosts are treated instead.
        on_failure: OnFailure,
    },
}

impl PluginOutcome {
    /// The plugin failed. A long sentence is truncated.
    #[must_use]
    pub fn failed(failure: &str, on_failure: OnFailure) -> Self {
        Self::Failed {
            failure: shortened(failure).into(),
            on_failure,
        }
    }
}

/// The results of all plugins by name. Clones share the data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginAnswers(Arc<BTreeMap<String, PluginOutcome>>);

impl PluginAnswers {
    #[must_use]
    pub fn new(outcomes: BTreeMap<String, PluginOutcome>) -> Self {
        Self(Arc::new(outcomes))
    }

    /// The result of a plugin; `None` if it was not called.
    #[must_use]
    pub fn of(&self, plugin: &str) -> Option<&PluginOutcome> {
        self.0.get(plugin)
    }

    /// The failed plugins, for explanations.
    pub fn failed(&self) -> Vec<FailedPlugin> {
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

/// A failed plugin in a recorded explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("The plugin {plugin} was not heard, so {}: {failure}", meanwhile(*on_failure))]
pub struct FailedPlugin {
    pub plugin: String,
    /// The cause, as a sentence.
    pub failure: String,
    /// How hosts were treated instead.
    pub on_failure: OnFailure,
}

fn meanwhile(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Pass => "it counted for nothing",
        OnFailure::Reject => "it rejected every host",
    }
}
