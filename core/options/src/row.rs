//! One option: its name, kind, default and texts.

use serde_json::Value;

use crate::{OptionKind, OptionType};

/// One option: name, kind, default, what it does, and when a change takes effect.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// The section, empty at the top level; `mdev_TYPE` and `scheduler_plugin_NAME` stand for every section of that form.
    pub section: &'static str,
    pub key: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// Writes the default; null if nothing holds.
    pub default: fn() -> Value,
    /// Where the value comes from if it is not set and there is no fixed default; empty: from nowhere.
    pub derived: &'static str,
    /// When a changed value takes effect.
    pub effect: OptionEffect,
    /// What it does, units included; the text of the reference.
    pub help: &'static str,
    /// A value for the commented sample file, as TOML, where the default cannot serve as one.
    pub example: &'static str,
}

impl OptionRow {
    /// The option of a type, as [`options!`](crate::options) declares it.
    #[must_use]
    pub const fn new<T: OptionType>(
        section: &'static str,
        key: &'static str,
        help: &'static str,
        default: fn() -> Value,
    ) -> Self {
        Self {
            section,
            key,
            kind: T::KIND,
            default,
            derived: "",
            effect: OptionEffect::Restart,
            help: help.trim_ascii(),
            example: "",
        }
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

    /// The fixed default, as a file would have it.
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
    /// As `config diff` says it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            OptionEffect::Live => "live",
            OptionEffect::Restart => "needs restart",
        }
    }
}
