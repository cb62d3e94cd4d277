//! One row of the option table: an option's name, kind, default and texts.

use serde_json::Value;

use crate::text::SECRET_FILE;
use crate::{OptionKind, OptionType};

/// The text of an option that names a file with a secret.
const OF_FILE: &str = "A file with the value of the option of this name without `_file`, on one line. Set one of the two. A file that \
    every user of the host can read is refused.";

/// One option: name, kind, default, what it does, and when a change takes effect.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// The section, empty at the top level; `mdev_TYPE` and `scheduler_plugin_NAME` mean every section of that pattern.
    pub section: &'static str,
    pub key: &'static str,
    /// The key with `_file` at its end: if the option is secret, the option that names a file with its value.
    pub file_key: &'static str,
    /// The kind of its values.
    pub kind: OptionKind,
    /// Writes the default; null without a default.
    pub default: fn() -> Value,
    /// Describes the default if it is not fixed; empty without a default.
    pub derived: &'static str,
    /// When a changed value takes effect.
    pub effect: OptionEffect,
    /// The text in the reference: what the option does, units included.
    pub help: &'static str,
    /// An example value for the sample file, as TOML, if the default cannot be used as one.
    pub example: &'static str,
}

impl OptionRow {
    /// The option of a type, as [`options!`](crate::options) declares it.
    #[must_use]
    pub const fn new<T: OptionType>(
        section: &'static str,
        (key, file_key): (&'static str, &'static str),
        help: &'static str,
        default: fn() -> Value,
    ) -> Self {
        Self {
            section,
            key,
            file_key,
            kind: T::KIND,
            default,
            derived: "",
            effect: OptionEffect::Restart,
            help: help.trim_ascii(),
            example: "",
        }
    }

    /// The option that names a file with the value of this one; `None` if this one is not secret.
    #[must_use]
    pub fn of_file(&self) -> Option<Self> {
        self.kind.is_secret().then_some(Self {
            key: self.file_key,
            kind: SECRET_FILE,
            default: || Value::Null,
            derived: "",
            help: OF_FILE,
            example: "\"/etc/berth/secrets/NAME\"",
            ..*self
        })
    }

    /// `section.key`, or the bare key at the top level.
    #[must_use]
    pub fn name(&self) -> String {
        match self.section {
            "" => self.key.to_owned(),
            section => format!("{section}.{}", self.key),
        }
    }

    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        let key = self.key.to_uppercase();
        match self.section {
            "" => format!("BERTH__{key}"),
            section => format!("BERTH__{}__{key}", section.to_uppercase()),
        }
    }

    /// The fixed default in its form in a file.
    #[must_use]
    pub fn default_value(&self) -> Option<Value> {
        match self.kind.default_form((self.default)()) {
            Value::Null => None,
            value => Some(value),
        }
    }
}

/// When a changed value takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionEffect {
    /// At the next reload (SIGHUP).
    Live,
    /// At the next start.
    Restart,
}

impl OptionEffect {
    /// The label in `config diff`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            OptionEffect::Live => "live",
            OptionEffect::Restart => "needs restart",
        }
    }
}
