//! Configuration of a plugin, `[scheduler_plugin_NAME]`.

use std::path::PathBuf;
use std::time::Duration;

use berth_scheduler::options::FilterSchedulerOptions;
use berth_scheduler::plugin::OnFailure;

/// The options of `[scheduler_plugin_NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginOptions {
    /// Name as in `enabled_filters` and `weight_classes`.
    pub name: String,
    pub program: PathBuf,
    /// Time budget for one request.
    pub time_budget: Duration,
    /// What happens to the hosts if the plugin fails; by default `reject` for a filter and `pass` for a weigher.
    pub on_failure: Option<OnFailure>,
    pub weight_multiplier: f64,
}

/// The roles in which a plugin is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EnabledRoles {
    pub(super) is_filter: bool,
    pub(super) is_weigher: bool,
}

impl EnabledRoles {
    /// Reads the roles of a plugin; `None` if it is not enabled.
    pub(super) fn from_options(options: &FilterSchedulerOptions, name: &str) -> Option<Self> {
        let enabled = Self {
            is_filter: options.enabled_filters.iter().any(|it| it == name),
            is_weigher: options.weight_classes.iter().any(|it| it == name),
        };
        (enabled.is_filter || enabled.is_weigher).then_some(enabled)
    }

    /// The default of `on_failure`.
    pub(super) fn on_failure(self) -> OnFailure {
        match self.is_filter {
            true => OnFailure::Reject,
            false => OnFailure::Pass,
        }
    }
}
