//! Plugins that cannot be asked, and what they refuse.

use std::path::Path;
use std::time::Duration;

use berth_hook::{HookError, Untrusted};
use berth_scheduler::plugin::{AnswerError, ExtraSpecError, ManifestError};

use super::program::AT_ONCE;

/// A plugin that cannot be one. Each names its section.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// Others than the superuser and the service's user can change what is run.
    #[error("[scheduler_plugin_{plugin}] program: {source}")]
    Untrusted {
        plugin: String,
        /// What they can change.
        source: Untrusted,
    },
    /// It does not say what it is.
    #[error("[scheduler_plugin_{plugin}] program: asked with --manifest, {source}")]
    NotRun {
        plugin: String,
        source: Box<HookError>,
    },
    /// What it says of itself is none.
    #[error("[scheduler_plugin_{plugin}] program: {source}")]
    Manifest {
        plugin: String,
        source: ManifestError,
    },
    /// It calls itself otherwise.
    #[error(
        "[scheduler_plugin_{plugin}] program: by its manifest it is {named}; the section should be [scheduler_plugin_{named}]"
    )]
    OtherName {
        plugin: String,
        /// As its manifest names it.
        named: String,
    },
    /// It is enabled as what it is not.
    #[error("[filter_scheduler] {option}: the plugin {plugin} is no {what}, by its manifest")]
    NoSuch {
        /// `enabled_filters` or `weight_classes`
        option: &'static str,
        plugin: String,
        /// `filter` or `weigher`
        what: &'static str,
    },
    /// A weigher rejects no host.
    #[error(
        "[scheduler_plugin_{plugin}] on_failure: reject is for filters, and enabled_filters does not name it; write pass"
    )]
    CannotReject {
        plugin: String,
    },
}

impl PluginError {
    /// What the operator can do.
    #[must_use]
    pub fn mend(&self) -> String {
        match self {
            Self::Untrusted { source, .. } => source.mend(),
            Self::NotRun { .. } => {
                "run it with --manifest as the service's user, and see what it says".to_owned()
            }
            Self::Manifest { .. } => {
                "docs/guide/howto/scheduler-plugins.md has the form of a manifest".to_owned()
            }
            Self::OtherName { plugin, named } => {
                format!("name the section after {named}, or let the manifest say {plugin}")
            }
            Self::NoSuch { option, plugin, .. } => {
                format!("take {plugin} out of {option}, or let its manifest say \"both\"")
            }
            Self::CannotReject { .. } => "on_failure = \"pass\"".to_owned(),
        }
    }
}

/// A flavor whose extra specs are not as plugins ask for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("flavor.extra_specs.{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ExtraSpecsError(pub Vec<ExtraSpecError>);

/// A hint that nobody reads, and that is nearly one that is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("scheduler_hints: nobody reads a hint {name}; is {meant} meant?")]
pub struct HintError {
    /// As it was given.
    pub name: String,
    /// The one that is near.
    pub meant: &'static str,
}

/// A plugin that was not heard.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// Others had all its turns for the whole of its time.
    #[error("it had no turn within {budget:?}: {AT_ONCE} of it run at a time, for other guests")]
    NoTurn {
        budget: Duration,
    },
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
            error => error.to_string(),
        };
        // What a language says of a program that broke names its file.
        outcome.replace(&program.display().to_string(), "the program")
    }
}
