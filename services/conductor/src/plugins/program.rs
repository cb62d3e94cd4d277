//! Runs the program of one plugin.

use std::path::Path;
use std::time::Duration;

use berth_hook::{Hook, HookInput};
use berth_scheduler::plugin::{OnFailure, Plugin, PluginAnswer, PluginManifest};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use super::error::PluginCallError;
use super::options::EnabledRoles;
use super::{PluginError, PluginOptions};

/// The timeout of `--manifest`.
const MANIFEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a manifest in bytes.
const MAX_MANIFEST: usize = 256 << 10;

/// Maximum size of an answer in bytes: a base, plus an amount for each host, up to a limit.
const ANSWER_BASE: usize = 64 << 10;
const ANSWER_PER_HOST: usize = 4 << 10;
const MAX_ANSWER: usize = 16 << 20;

/// Maximum number of concurrent runs of one plugin. Waiting for a slot counts against the time budget.
pub(super) const MAX_CONCURRENT: usize = 8;

pub(super) struct PluginProgram {
    pub(super) plugin: Plugin,
    pub(super) manifest: PluginManifest,
    hook: Hook,
    pub(super) slots: Semaphore,
}

impl PluginProgram {
    /// Runs the program with `--manifest`, and checks the manifest.
    pub(super) async fn open(
        options: PluginOptions,
        enabled: EnabledRoles,
    ) -> Result<Self, PluginError> {
        let mut hook = Hook {
            name: "scheduler plugin",
            program: options.program.clone(),
            deadline: MANIFEST_TIMEOUT,
        };
        let asked = HookInput {
            arguments: &["--manifest"],
            document: b"",
            most: MAX_MANIFEST,
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
        let on_failure = check_manifest(&options, enabled, &manifest)?;
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
            slots: Semaphore::new(MAX_CONCURRENT),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.hook.program
    }

    /// Runs the program once, with the time that is left after waiting for a slot.
    pub(super) async fn ask(
        &self,
        question: &[u8],
        hosts: &[String],
    ) -> Result<PluginAnswer, PluginCallError> {
        let (_slot, left) = self.acquire_slot().await?;
        let hook = Hook {
            deadline: left,
            ..self.hook.clone()
        };
        let of_hosts = hosts.len().saturating_mul(ANSWER_PER_HOST);
        let asked = HookInput {
            arguments: &[],
            document: question,
            most: ANSWER_BASE.saturating_add(of_hosts).min(MAX_ANSWER),
        };
        let written = hook.answer(asked).await?;
        let hosts = hosts.iter().map(String::as_str);
        Ok(PluginAnswer::read(&written, self.plugin.kind, hosts)?)
    }

    /// Waits for a slot. Returns it with the remaining time. The semaphore is never closed.
    async fn acquire_slot(&self) -> Result<(SemaphorePermit<'_>, Duration), PluginCallError> {
        let budget = self.hook.deadline;
        if let Ok(slot) = self.slots.try_acquire() {
            return Ok((slot, budget));
        }
        let begun = Instant::now();
        match timeout(budget, self.slots.acquire()).await {
            Ok(Ok(slot)) => Ok((slot, budget.saturating_sub(begun.elapsed()))),
            Ok(Err(_)) | Err(_) => Err(PluginCallError::Busy {
                budget,
                limit: MAX_CONCURRENT,
            }),
        }
    }
}

/// Checks the manifest against the options. Returns the effective `on_failure`.
fn check_manifest(
    options: &PluginOptions,
    enabled: EnabledRoles,
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
        on_failure => Ok(on_failure.unwrap_or_else(|| enabled.on_failure())),
    }
}
