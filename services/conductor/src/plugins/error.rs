//! Errors of scheduler plugins: configuration, refused requests, and failed runs.

use std::path::Path;
use std::time::Duration;

use berth_hook::HookError;
use berth_scheduler::plugin::{AnswerError, ExtraSpecError, ManifestError};

/// A plugin that cannot be opened. Each error names its section.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The program failed with `--manifest`.
    #[error("[scheduler_plugin_{plugin}] program: failed with --manifest: {source}")]
    NotRun {
        plugin: String,
        source: Box<HookError>,
    },
    /// The manifest is invalid.
    #[error("[scheduler_plugin_{plugin}] program: {source}")]
    Manifest {
        plugin: String,
        source: ManifestError,
    },
    /// The manifest has another name.
    #[error(
        "[scheduler_plugin_{plugin}] program: its manifest has the name {named}; the section must be [scheduler_plugin_{named}]"
    )]
    OtherName {
        plugin: String,
        /// The name in the manifest.
        named: String,
    },
    /// The plugin is enabled in a role that its manifest does not have.
    #[error("[filter_scheduler] {option}: by its manifest, the plugin {plugin} is not a {what}")]
    NoSuch {
        /// The option: `enabled_filters` or `weight_classes`.
        option: &'static str,
        plugin: String,
        /// The kind: `filter` or `weigher`.
        what: &'static str,
    },
    /// `on_failure = "reject"` is not allowed for a weigher.
    #[error(
        "[scheduler_plugin_{plugin}] on_failure: reject is allowed only for filters, but enabled_filters does not include the plugin; use pass"
    )]
    CannotReject { plugin: String },
}

impl PluginError {
    /// How the operator can fix it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::NotRun { .. } => {
                "run it with --manifest as the service's user to see its output".to_owned()
            }
            Self::Manifest { .. } => {
                "/usr/share/doc/berth/guide/howto/scheduler-plugins.md describes the manifest"
                    .to_owned()
            }
            Self::OtherName { plugin, named } => {
                format!(
                    "rename the section to {named}, or change the name in the manifest to {plugin}"
                )
            }
            Self::NoSuch { option, plugin, .. } => {
                format!(
                    "remove {plugin} from {option}, or set the kind in its manifest to \"both\""
                )
            }
            Self::CannotReject { .. } => "on_failure = \"pass\"".to_owned(),
        }
    }
}

/// Extra specs that plugins refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flavor.extra_specs.{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ExtraSpecsError(pub Vec<ExtraSpecError>);

/// An unknown hint that is similar to a known one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("scheduler_hints: unknown hint {name}; did you mean {meant}?")]
pub struct HintError {
    pub name: String,
    /// The similar known hint.
    pub meant: &'static str,
}

/// Failure of one run of a plugin.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginCallError {
    /// All slots were in use for the whole time budget.
    #[error("timed out after {budget:?} waiting for one of its {limit} concurrent runs")]
    Busy {
        budget: Duration,
        /// Maximum number of concurrent runs.
        limit: usize,
    },
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The output is invalid.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl PluginCallError {
    /// The message for users, without the program's path.
    pub(super) fn user_message(&self, program: &Path) -> String {
        let outcome = match self {
            Self::Hook(error) => error.outcome(),
            error => error.to_string(),
        };
        // Error messages of interpreters contain the path of the script.
        outcome.replace(&program.display().to_string(), "the program")
    }
}
