//! The scheduler's plugins: programs of the operator's that are asked about a request and its hosts before filters and weighers are.
//!
//! Each enabled one says at the start what it is (`PROGRAM --manifest`), and is run once for each search, all of them at once, with
//! the question on its standard input. What it may use is bounded: its time, what it writes, how many of it run at a time. One that
//! does not answer fails open or closed, as its options say; the request goes on either way. Callers: [`FilterScheduler`], and
//! `cli`, which opens them, and asks them in a dry run.
//!
//! [`FilterScheduler`]: crate::FilterScheduler

mod error;
mod options;
mod program;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_hook::is_superuser;
use berth_scheduler::own::Own;
use berth_scheduler::plugin::{PluginAnswers, PluginOutcome, Question};
use berth_scheduler::request::Hints;
use berth_scheduler::{ConsideredHost, Options, RequestSpec};
use tokio::task::JoinSet;

pub use error::{ExtraSpecsError, HintError, PluginError};
pub use options::PluginOptions;

use options::Enabled;
use program::Program;

/// The plugins that the scheduler's options enable.
#[derive(Default)]
pub struct Plugins {
    programs: Vec<Arc<Program>>,
}

impl Plugins {
    /// Asks each enabled plugin what it is.
    ///
    /// # Errors
    /// One of them does not say, or is not what its options say it is; as the superuser, one that others can change, which is not run.
    pub async fn open(
        plugins: impl IntoIterator<Item = PluginOptions>,
        options: &Options,
    ) -> Result<Self, PluginError> {
        let mut programs = Vec::new();
        for plugin in plugins {
            if let Some(enabled) = Enabled::by(&options.filter_scheduler, &plugin.name) {
                if is_superuser() {
                    plugin.trusted()?;
                }
                programs.push(Arc::new(Program::open(plugin, enabled).await?));
            }
        }
        Ok(Self { programs })
    }

    /// The enabled plugins that the superuser would not run, since others can change them; to be told to any other user.
    pub fn untrusted(
        plugins: impl IntoIterator<Item = PluginOptions>,
        options: &Options,
    ) -> Vec<PluginError> {
        let enabled = plugins
            .into_iter()
            .filter(|it| Enabled::by(&options.filter_scheduler, &it.name).is_some());
        enabled.filter_map(|it| it.trusted().err()).collect()
    }

    /// Their filters and weighers, for [`Scheduler::with_own`](berth_scheduler::select::Scheduler::with_own). To be asked for once:
    /// what is answered stays in memory.
    #[must_use]
    pub fn own(&self) -> Own {
        let programs = self.programs.iter();
        programs.fold(Own::new(), |own, one| own.with_plugin(&one.plugin))
    }

    /// Whether a flavor's extra specs are as the plugins that read them ask for.
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

    /// Whether hints are such as somebody may read. With a plugin each may be, and without one a name that is nearly that of a hint
    /// is taken for a slip.
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

    /// What each says of these hosts. Dropped, it ends those that run.
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
        // One that panicked has no outcome, and counts as one that was not asked.
        while let Some(ended) = asked.join_next().await {
            if let Ok((program, answer)) = ended {
                let plugin = &program.plugin;
                let outcome = answer.map_or_else(
                    |failure| {
                        let (plugin, guest) = (plugin.name.as_str(), request.instance_uuid.as_str());
                        tracing::warn!(plugin, guest, %failure, "a plugin of the scheduler was not heard");
                        PluginOutcome::failed(&failure.told(program.path()), program.plugin.on_failure)
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
