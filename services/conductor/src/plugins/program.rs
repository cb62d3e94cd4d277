//! One plugin: its program, what it says of itself, and what it answers.

use std::path::Path;
use std::time::Duration;

use berth_hook::{Asked, Hook};
use berth_scheduler::plugin::{OnFailure, Plugin, PluginAnswer, PluginManifest};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use super::error::AskError;
use super::options::Enabled;
use super::{PluginError, PluginOptions};

/// How long a plugin may take to say what it is.
const MANIFEST_TIME: Duration = Duration::from_secs(10);

/// The most bytes of a manifest.
const LARGEST_MANIFEST: usize = 256 << 10;

/// The most bytes of an answer: so many, and so many for each host, but never more than the last.
const ANSWER: usize = 64 << 10;
const ANSWER_OF_HOST: usize = 4 << 10;
const LARGEST_ANSWER: usize = 16 << 20;

/// So many of one plugin run at a time; other guests wait for their turn, which is of their time.
pub(super) const AT_ONCE: usize = 8;

pub(super) struct Program {
    pub(super) plugin: Plugin,
    pub(super) manifest: PluginManifest,
    hook: Hook,
    pub(super) turns: Semaphore,
}

impl Program {
    /// Asks it what it is.
    pub(super) async fn open(
        options: PluginOptions,
        enabled: Enabled,
    ) -> Result<Self, PluginError> {
        let mut hook = Hook {
            called: "scheduler plugin",
            program: options.program.clone(),
            deadline: MANIFEST_TIME,
        };
        let asked = Asked {
            arguments: &["--manifest"],
            document: b"",
            most: LARGEST_MANIFEST,
        };
        let plugin = || options.name.clone();
        let written = hook.answer(asked).await;
        let written = written.map_err(|source| PluginError::NotRun {
            plugin: plugin(),
            source: Box::new(source),
        })?;
        let manifest = PluginManifest::read(&written).map_err(|source| PluginError::Manifest {
            plugin: plugin(),
            source,
        })?;
        let on_failure = judged(&options, enabled, &manifest)?;
        hook.deadline = options.time_budget;
        Ok(Self {
            plugin: Plugin {
                name: options.name,
                kind: manifest.kind,
                on_failure,
                weight_multiplier: options.weight_multiplier,
            },
            manifest,
            hook,
            turns: Semaphore::new(AT_ONCE),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.hook.program
    }

    /// Runs it once. It has what is left of its time when its turn comes.
    pub(super) async fn ask(
        &self,
        question: &[u8],
        hosts: &[String],
    ) -> Result<PluginAnswer, AskError> {
        let (_turn, left) = self.turn().await?;
        let hook = Hook {
            deadline: left,
            ..self.hook.clone()
        };
        let of_hosts = hosts.len().saturating_mul(ANSWER_OF_HOST);
        let asked = Asked {
            arguments: &[],
            document: question,
            most: ANSWER.saturating_add(of_hosts).min(LARGEST_ANSWER),
        };
        let written = hook.answer(asked).await?;
        let hosts = hosts.iter().map(String::as_str);
        Ok(PluginAnswer::read(&written, self.plugin.kind, hosts)?)
    }

    /// Its turn, and what is left of its time then. The turns are never closed.
    async fn turn(&self) -> Result<(SemaphorePermit<'_>, Duration), AskError> {
        let budget = self.hook.deadline;
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok((turn, budget));
        }
        let begun = Instant::now();
        match timeout(budget, self.turns.acquire()).await {
            Ok(Ok(turn)) => Ok((turn, budget.saturating_sub(begun.elapsed()))),
            Ok(Err(_)) | Err(_) => Err(AskError::NoTurn { budget }),
        }
    }
}

/// Whether it is what its options say; what becomes of hosts where it does not answer.
fn judged(
    options: &PluginOptions,
    enabled: Enabled,
    manifest: &PluginManifest,
) -> Result<OnFailure, PluginError> {
    let plugin = || options.name.clone();
    if manifest.name != options.name {
        return Err(PluginError::OtherName {
            plugin: plugin(),
            named: manifest.name.clone(),
        });
    }
    let no_such = |option, what| PluginError::NoSuch {
        option,
        plugin: plugin(),
        what,
    };
    if enabled.is_filter && !manifest.kind.is_filter() {
        return Err(no_such("enabled_filters", "filter"));
    }
    if enabled.is_weigher && !manifest.kind.is_weigher() {
        return Err(no_such("weight_classes", "weigher"));
    }
    match options.on_failure {
        Some(OnFailure::Reject) if !enabled.is_filter => {
            Err(PluginError::CannotReject { plugin: plugin() })
        }
        told => Ok(told.unwrap_or_else(|| enabled.on_failure())),
    }
}
