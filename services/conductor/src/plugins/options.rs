//! A plugin as it is configured.

use std::path::PathBuf;
use std::time::Duration;

use berth_hook::{Untrusted, trusted};
use berth_scheduler::options::FilterSchedulerOptions;
use berth_scheduler::plugin::OnFailure;

use super::PluginError;

/// `[scheduler_plugin_NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginOptions {
    /// As in `enabled_filters` and `weight_classes`.
    pub name: String,
    pub program: PathBuf,
    /// How long it may take for one request.
    pub time_budget: Duration,
    /// What becomes of hosts where it does not answer; none: it fails closed as a filter, and open as a weigher.
    pub on_failure: Option<OnFailure>,
    pub weight_multiplier: f64,
}

impl PluginOptions {
    /// Whether others than the superuser and this process's user can change what is run. One that is not there is not to be run.
    pub(super) fn trusted(&self) -> Result<(), PluginError> {
        match trusted(&self.program) {
            Ok(()) | Err(Untrusted::Unseen { .. }) => Ok(()),
            Err(source) => Err(PluginError::Untrusted {
                plugin: self.name.clone(),
                source,
            }),
        }
    }
}

/// As what a plugin is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Enabled {
    pub(super) is_filter: bool,
    pub(super) is_weigher: bool,
}

impl Enabled {
    /// By its name; none where nothing names it.
    pub(super) fn by(options: &FilterSchedulerOptions, name: &str) -> Option<Self> {
        let enabled = Self {
            is_filter: options.enabled_filters.iter().any(|it| it == name),
            is_weigher: options.weight_classes.iter().any(|it| it == name),
        };
        (enabled.is_filter || enabled.is_weigher).then_some(enabled)
    }

    /// What holds where the options do not say.
    pub(super) fn on_failure(self) -> OnFailure {
        match self.is_filter {
            true => OnFailure::Reject,
            false => OnFailure::Pass,
        }
    }
}
