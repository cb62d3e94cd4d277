//! Filters and weighers that are not built in.
//!
//! They implement the same traits as the built-in ones, are enabled by name in the same options, and appear in the same records and
//! explanations. A filter accepts or rejects a host; the reason is [`Reason::Plugin`](crate::Reason::Plugin) or any other one.
//!
//! ```
//! use berth_scheduler::custom_plugins::CustomPlugins;
//! use berth_scheduler::select::Scheduler;
//! use berth_scheduler::weighers::{Multiplier, Weigher, WeigherPlan};
//! use berth_scheduler::{ConsideredHost, Filter, SchedulerOptions, FilterPlan, Reason, RequestSpec, Runs};
//!
//! /// Rejects hosts whose name does not end with the flavor's extra spec `site:suffix`.
//! struct SuffixFilter;
//!
//! impl Filter for SuffixFilter {
//!     fn name(&self) -> &str {
//!         "SuffixFilter"
//!     }
//!
//!     fn runs(&self) -> Runs {
//!         Runs { once_per_request: true, on_rebuild: false }
//!     }
//!
//!     fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
//!         let Some(suffix) = request.flavor.extra_specs.get("site:suffix") else {
//!             return FilterPlan::PassAll;
//!         };
//!         FilterPlan::each(move |host: &mut ConsideredHost| match host.state.host.ends_with(suffix.as_str()) {
//!             true => Ok(()),
//!             false => Err(Reason::plugin(self.name(), Some("wrong_suffix"), "its name has another suffix")),
//!         })
//!     }
//! }
//!
//! /// Prefers hosts with short names.
//! struct ShortNameWeigher;
//!
//! impl Weigher for ShortNameWeigher {
//!     fn name(&self) -> &'static str {
//!         "ShortNameWeigher"
//!     }
//!
//!     fn module(&self) -> &'static str {
//!         "short_name"
//!     }
//!
//!     fn multiplier(&self) -> Multiplier {
//!         Multiplier::fixed("short_name_weight_multiplier", 2.0)
//!     }
//!
//!     fn plan<'a>(&'a self, _: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
//!         WeigherPlan::each(|host| -f64::from(u16::try_from(host.host.len()).unwrap_or(u16::MAX)))
//!     }
//! }
//!
//! let mut options = SchedulerOptions::default();
//! options.filter_scheduler.enabled_filters = vec!["ComputeFilter".into(), "SuffixFilter".into()];
//! options.filter_scheduler.weight_classes = vec!["RAMWeigher".into(), "ShortNameWeigher".into()];
//! let own = CustomPlugins::new().with_filter(&SuffixFilter).with_weigher(&ShortNameWeigher);
//! let scheduler = Scheduler::with_custom_plugins(options, &own)?;
//! assert_eq!(scheduler.filters().collect::<Vec<_>>(), ["ComputeFilter", "SuffixFilter"]);
//! # Ok::<(), berth_scheduler::select::SchedulerError>(())
//! ```

mod filter;
#[cfg(test)]
mod tests;
mod weigher;

use crate::filters::Filter;
use crate::plugin::Plugin;
use crate::weighers::Weigher;
use filter::PluginFilter;
use weigher::PluginWeigher;

/// Custom filters and weighers that options may enable.
///
/// They must be `'static`: either a `static` item or leaked at start. Records can then hold their names without copies.
#[derive(Clone, Default)]
pub struct CustomPlugins {
    pub(crate) filters: Vec<&'static dyn Filter>,
    pub(crate) weighers: Vec<&'static dyn Weigher>,
}

impl CustomPlugins {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a filter. It need not be in `available_filters`. A filter with a built-in name is never used.
    #[must_use]
    pub fn with_filter(mut self, filter: &'static dyn Filter) -> Self {
        self.filters.push(filter);
        self
    }

    /// Adds a weigher. `all_weighers` does not include it. A weigher with a built-in name is never used.
    #[must_use]
    pub fn with_weigher(mut self, weigher: &'static dyn Weigher) -> Self {
        self.weighers.push(weigher);
        self
    }

    /// Registers the plugin's filter, weigher or both, depending on its kind. They are leaked, so register each plugin
    /// once, at startup.
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

    pub(crate) fn filter(&self, name: &str) -> Option<&'static dyn Filter> {
        let mut filters = self.filters.iter().copied();
        filters.find(|it| it.name() == name)
    }

    pub(crate) fn weigher(&self, name: &str) -> Option<&'static dyn Weigher> {
        let mut weighers = self.weighers.iter().copied();
        weighers.find(|it| it.name() == name)
    }
}
