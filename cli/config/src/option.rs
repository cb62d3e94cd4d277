//! One option: its row in the [table](super::table).

use super::kind::OptionKind;

/// One option: name, kind, default, what it does, and when a change takes effect.
#[derive(Debug, Clone, Copy)]
pub struct OptionRow {
    /// The section, empty at the top level; `mdev_TYPE` and `scheduler_plugin_NAME` stand for every section of that form.
    pub section: &'static str,
    pub key: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// What holds when nothing is set.
    pub default: Default,
    /// When a changed value takes effect.
    pub effect: OptionEffect,
    /// What it does, units included; the text of the reference.
    pub help: &'static str,
    /// A value for the commented sample file, as TOML, where the default cannot serve as one.
    pub example: &'static str,
}

impl OptionRow {
    /// `section.key`, or the bare key at the top level.
    #[must_use]
    pub fn name(&self) -> String {
        if self.section.is_empty() {
            self.key.to_owned()
        } else {
            format!("{}.{}", self.section, self.key)
        }
    }

    /// The environment variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        if self.section.is_empty() {
            format!("BERTH__{}", self.key.to_uppercase())
        } else {
            format!(
                "BERTH__{}__{}",
                self.section.to_uppercase(),
                self.key.to_uppercase()
            )
        }
    }
}

/// What holds when an option is not set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    Unset,
    /// Something worked out from the host or other options; the text says what.
    Derived(&'static str),
    Text(&'static str),
    Integer(i64),
    Float(f64),
    Flag(bool),
    List(&'static [&'static str]),
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
