//! Scheduler plugins: programs of an operator that filter and weigh hosts.
//!
//! At the start, each enabled plugin prints its manifest (`PROGRAM --manifest`). For each search, all plugins run
//! concurrently with the question on standard input. Their time, their output and the number of concurrent runs are
//! limited. If a plugin fails, `on_failure` decides whether its filter passes or rejects the hosts. Used by
//! [`FilterScheduler`], and by `cli`, which opens them and runs them in `berth scheduler explain`.
//!
//! [`FilterScheduler`]: crate::FilterScheduler

mod error;
mod options;
mod program;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_scheduler::custom_plugins::CustomPlugins;
use berth_scheduler::plugin::{PluginAnswers, PluginOutcome, Question};
use berth_scheduler::request::Hints;
use berth_scheduler::{ConsideredHost, RequestSpec, SchedulerOptions};
use tokio::task::JoinSet;

pub use error::{ExtraSpecsError, HintError, PluginError};
pub use options::PluginOptions;

use options::EnabledRoles;
use program::PluginProgram;

/// The enabled plugins. Empty by default.
#[derive(Default)]
pub struct Plugins {
    programs: Vec<Arc<PluginProgram>>,
}

impl Plugins {
    /// Reads the manifest of each enabled plugin.
    ///
    /// Errors: a plugin prints no valid manifest, or its manifest contradicts its options.
    pub async fn open(
        plugins: impl IntoIterator<Item = PluginOptions>,
        options: &SchedulerOptions,
    ) -> Result<Self, PluginError> {
        let mut programs = Vec::new();
        for plugin in plugins {
            if let Some(enabled) =
                EnabledRoles::from_options(&options.filter_scheduler, &plugin.name)
            {
                programs.push(Arc::new(PluginProgram::open(plugin, enabled).await?));
            }
        }
        Ok(Self { programs })
    }

    /// The plugins' filters and weighers, for
    /// [`Scheduler::with_custom_plugins`](berth_scheduler::select::Scheduler::with_custom_plugins).
    ///
    /// Call this once, at the start. Filters and weighers must be `'static`, so each call allocates them and never frees
    /// them.
    #[must_use]
    pub fn custom_plugins(&self) -> CustomPlugins {
        let programs = self.programs.iter();
        programs.fold(CustomPlugins::new(), |custom, program| {
            custom.with_plugin(&program.plugin)
        })
    }

    /// Whether a plugin reads an extra spec, according to its manifest.
    pub(crate) fn read(&self, key: &str) -> bool {
        let mut specs = self
            .programs
            .iter()
            .flat_map(|one| &one.manifest.extra_specs);
        specs.any(|spec| spec.name == key)
    }

    /// Checks a flavor's extra specs against the manifests.
    pub(crate) fn check(
        &self,
        extra_specs: &BTreeMap<String, String>,
    ) -> Result<(), ExtraSpecsError> {
        let wrong = self.programs.iter();
        let wrong: Vec<_> = wrong
            .flat_map(|one| one.manifest.check(extra_specs))
            .collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(ExtraSpecsError(wrong)),
        }
    }

    /// Checks the names of scheduler hints. With plugins, all names are allowed; without, a name that is similar
    /// to a known hint is refused as a typing error.
    pub(crate) fn check_hints<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), HintError> {
        let mut slips = names
            .into_iter()
            .filter(|_| self.programs.is_empty())
            .filter_map(|name| Some((name, Hints::meant(name)?)));
        match slips.next() {
            None => Ok(()),
            Some((name, meant)) => Err(HintError {
                name: name.clone(),
                meant,
            }),
        }
    }

    /// Runs all plugins for these hosts. Dropping the future kills the running programs.
    pub async fn ask(&self, request: &RequestSpec, hosts: &[ConsideredHost]) -> PluginAnswers {
        if self.programs.is_empty() {
            return PluginAnswers::default();
        }
        let question = berth_wire::encode(&Question::new(request, hosts));
        let question: Arc<[u8]> = question.into();
        let uuids = hosts.iter().map(|host| host.state.uuid.clone());
        let uuids: Arc<[String]> = uuids.collect();
        let mut asked = JoinSet::new();
        for program in &self.programs {
            let (program, question) = (Arc::clone(program), Arc::clone(&question));
            let uuids = Arc::clone(&uuids);
            asked.spawn(async move {
                let answer = program.ask(&question, &uuids).await;
                (program, answer)
            });
        }
        let mut outcomes = BTreeMap::new();
        // A plugin whose task panicked has no outcome. Its filter then passes or rejects all hosts, as `on_failure` says, and
        // its weigher gives all hosts the same weight.
        while let Some(ended) = asked.join_next().await {
            if let Ok((program, answer)) = ended {
                let plugin = &program.plugin;
                let outcome = answer.map_or_else(
                    |failure| {
                        let (plugin, guest) =
                            (plugin.name.as_str(), request.instance_uuid.as_str());
                        tracing::warn!(plugin, guest, %failure, "scheduler plugin failed");
                        PluginOutcome::failed(
                            &failure.user_message(program.path()),
                            program.plugin.on_failure,
                        )
                    },
                    PluginOutcome::Answered,
                );
                outcomes.insert(plugin.name.clone(), outcome);
            }
        }
        PluginAnswers::new(outcomes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
