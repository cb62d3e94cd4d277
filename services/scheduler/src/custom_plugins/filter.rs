//! The filter of a plugin. It applies the answers that the request carries.

use std::sync::Arc;

use crate::filters::{Filter, FilterPlan, Runs};
use crate::host_state::ConsideredHost;
use crate::options::SchedulerOptions;
use crate::plugin::{OnFailure, Plugin, PluginOutcome, PluginVerdict};
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct PluginFilter {
    name: Arc<str>,
    on_failure: OnFailure,
}

impl PluginFilter {
    pub(super) fn new(plugin: &Plugin) -> Self {
        Self {
            name: plugin.name.as_str().into(),
            on_failure: plugin.on_failure,
        }
    }

    fn unheard(&self, failure: &Arc<str>) -> Reason {
        Reason::PluginFailed {
            plugin: Arc::clone(&self.name),
            failure: Arc::clone(failure),
        }
    }
}

impl Filter for PluginFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn runs(&self) -> Runs {
        Runs::ONCE
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> FilterPlan<'a> {
        let not_asked = || Arc::from("it was not asked");
        let (failure, on_failure) = match request.plugin_answers.of(&self.name) {
            Some(PluginOutcome::Answered(answer)) => {
                let unknown: Arc<str> = "it was not asked about this host".into();
                return FilterPlan::each(move |host: &mut ConsideredHost| {
                    match (answer.of(&host.state.uuid), self.on_failure) {
                        (Some(answer_of_host), _) => match &answer_of_host.verdict {
                            PluginVerdict::Pass => Ok(()),
                            PluginVerdict::Reject { code, text } => {
                                Err(Reason::plugin(&self.name, code.as_deref(), text))
                            }
                        },
                        (None, OnFailure::Pass) => Ok(()),
                        (None, OnFailure::Reject) => Err(self.unheard(&unknown)),
                    }
                });
            }
            Some(PluginOutcome::Failed {
                failure,
                on_failure,
            }) => (Arc::clone(failure), *on_failure),
            None => (not_asked(), self.on_failure),
        };
        match on_failure {
            OnFailure::Pass => FilterPlan::PassAll,
            OnFailure::Reject => FilterPlan::RejectAll(self.unheard(&failure)),
        }
    }
}
