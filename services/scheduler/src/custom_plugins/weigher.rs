//! The weigher of a plugin. It applies the raw weights that the request carries.

use crate::options::SchedulerOptions;
use crate::plugin::{Plugin, PluginOutcome};
use crate::request::RequestSpec;
use crate::weighers::{Multiplier, Weigher, WeigherPlan};

pub(super) struct PluginWeigher {
    name: &'static str,
    multiplier: Multiplier,
}

impl PluginWeigher {
    /// Leaks the name: records of requests refer to it.
    pub(super) fn new(plugin: &Plugin) -> Self {
        let key: &'static str =
            Box::leak(format!("{}_weight_multiplier", plugin.name).into_boxed_str());
        Self {
            name: Box::leak(plugin.name.clone().into_boxed_str()),
            multiplier: Multiplier::fixed(key, plugin.weight_multiplier),
        }
    }
}

impl Weigher for PluginWeigher {
    fn name(&self) -> &'static str {
        self.name
    }

    fn module(&self) -> &'static str {
        self.name
    }

    fn multiplier(&self) -> Multiplier {
        self.multiplier
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        match request.plugin_answers.of(self.name) {
            Some(PluginOutcome::Answered(answer)) => WeigherPlan::each(|host| {
                answer
                    .of(&host.uuid)
                    .map_or(0.0, |host_answer| host_answer.weight)
            }),
            Some(PluginOutcome::Failed { .. }) | None => WeigherPlan::same(0.0),
        }
    }
}
