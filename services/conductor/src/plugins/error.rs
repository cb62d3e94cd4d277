//! Plugins that cannot be asked, and what they refuse.

use std::path::Path;

use berth_hook::HookError;
use berth_scheduler::plugin::{AnswerError, ExtraSpecError, ManifestError};

/// A plugin that cannot be one. Each names its section.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// It does not say what it is.
    #[error("[scheduler_plugin_{plugin}] program: asked with --manifest, {source}")]
    NotRun {
        /// The plugin.
        plugin: String,
        /// Why not.
        source: Box<HookError>,
    },
    /// What it says of itself is none.
    #[error("[scheduler_plugin_{plugin}] program: {source}")]
    Manifest {
        /// The plugin.
        plugin: String,
        /// Why not.
        source: ManifestError,
    },
    /// It calls itself otherwise.
    #[error(
        "[scheduler_plugin_{plugin}] program: by its manifest it is {named}; the section should be [scheduler_plugin_{named}]"
    )]
    OtherName {
        /// The plugin.
        plugin: String,
        /// As its manifest names it.
        named: String,
    },
    /// It is enabled as what it is not.
    #[error("[filter_scheduler] {option}: the plugin {plugin} is no {what}, by its manifest")]
    NoSuch {
        /// `enabled_filters` or `weight_classes`
        option: &'static str,
        /// The plugin.
        plugin: String,
        /// `filter` or `weigher`
        what: &'static str,
    },
    /// A weigher rejects no host.
    #[error(
        "[scheduler_plugin_{plugin}] on_failure: reject is for filters, and enabled_filters does not name it; write pass"
    )]
    CannotReject {
        /// The plugin.
        plugin: String,
    },
}

/// A flavor whose extra specs are not as plugins ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flavor.extra_specs.{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ExtraSpecsError(pub Vec<ExtraSpecError>);

/// A plugin that was not heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// It did not end as it should.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// What it wrote is no answer.
    #[error(transparent)]
    Answer(#[from] AnswerError),
}

impl AskError {
    /// What became of it, for the users of the cloud: the log has the program's path, and they have none.
    pub(super) fn told(&self, program: &Path) -> String {
        let outcome = match self {
            Self::Hook(error) => error.outcome(),
            Self::Answer(error) => error.to_string(),
        };
        // What a language says of a program that broke names its file.
        outcome.replace(&program.display().to_string(), "the program")
    }
}
