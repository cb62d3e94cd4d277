//! A loaded configuration, option by option: for `config show`, `config diff`, and the agent's `/v1/config`.

use std::collections::BTreeMap;
use std::fmt;

use berth_options::{FileRole, Json, OptionEffect, OptionRow};

use super::problem::ConfigProblem;
use super::secret::MASK;
use super::sections::Config;
use super::setting::{self, Setting};
use crate::table;

/// The origin of values that are not set.
pub(crate) const DEFAULT_ORIGIN: &str = "default";

/// A configuration that passed every check.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    pub config: Config,
    /// All options with their values and origins.
    pub effective: Vec<Effective>,
    /// Valid settings that are probably mistakes.
    pub warnings: Vec<ConfigProblem>,
    /// The files that were read, in order.
    pub files: Vec<String>,
}

/// One effective option. Its debug form masks secrets.
#[derive(Clone)]
pub struct Effective {
    /// The option as `section.key`.
    pub name: String,
    /// Its row in the table.
    pub row: &'static OptionRow,
    /// `FILE:LINE:COLUMN`, `variable NAME`, or `default`.
    pub origin: String,
    value: Option<Json>,
}

impl Effective {
    pub(super) fn new(section: &str, row: &'static OptionRow, set: Option<&Setting>) -> Self {
        Effective {
            name: setting::name(section, row.key),
            row,
            origin: set.map_or(DEFAULT_ORIGIN, |it| &it.at).to_owned(),
            value: match set {
                Some(set) => Some(set.value.clone()),
                None => row.default_value(),
            },
        }
    }

    /// Whether the option is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.origin != DEFAULT_ORIGIN
    }

    /// The files that the value names, if rights depend on who can change or read them.
    pub(super) fn files(&self) -> Vec<(FileRole, &str)> {
        let value = self.value.as_ref();
        value.map_or_else(Vec::new, |value| self.row.kind.files(value))
    }

    /// The value as JSON; `***` for a secret, null without a value.
    #[must_use]
    pub fn shown(&self) -> Json {
        match &self.value {
            None => Json::Null,
            Some(_) if self.row.kind.is_secret() => Json::from(MASK),
            Some(value) => value.clone(),
        }
    }

    /// The origin for people, with the source of derived values.
    #[must_use]
    pub fn explained_origin(&self) -> String {
        match (self.row.derived, &self.value) {
            ("", _) | (_, Some(_)) => self.origin.clone(),
            (from, None) => format!("{DEFAULT_ORIGIN}: {}", from.replace('`', "")),
        }
    }
}

impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.name, self.shown(), self.origin)
    }
}

/// Option names with their values as JSON, secrets masked: the body of the agent's `/v1/config`.
pub type Public = BTreeMap<String, Json>;

impl LoadedConfig {
    /// Whether the option `section.key` is set.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        let mut all = self.effective.iter();
        all.any(|each| each.name == name && each.is_set())
    }

    /// The origin of the option `section.key`: a place in a file, a variable, or `default`.
    #[must_use]
    pub fn origin(&self, name: &str) -> String {
        let mut all = self.effective.iter();
        let option = all.find(|each| each.name == name);
        option.map_or_else(|| DEFAULT_ORIGIN.to_owned(), |each| each.origin.clone())
    }

    /// All values, with secrets masked.
    #[must_use]
    pub fn public(&self) -> Public {
        self.effective
            .iter()
            .map(|each| (each.name.clone(), each.shown()))
            .collect()
    }
}

/// One option that differs between two configurations.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionChange {
    /// The option as `section.key`.
    pub name: String,
    /// The running value, null without a value.
    pub running: Json,
    /// The value in the files.
    pub file: Json,
    /// When the change takes effect.
    pub effect: OptionEffect,
}

/// The differences, by option name. Secrets are compared only by whether they are set, because their values are not
/// known here.
#[must_use]
pub fn changes(running: &Public, file: &Public) -> Vec<OptionChange> {
    let names: std::collections::BTreeSet<&String> = running.keys().chain(file.keys()).collect();
    let value = |side: &Public, name: &String| side.get(name).cloned().unwrap_or(Json::Null);
    names
        .into_iter()
        .map(|name| OptionChange {
            name: name.clone(),
            running: value(running, name),
            file: value(file, name),
            effect: effect_of(name),
        })
        .filter(|change| change.running != change.file)
        .collect()
}

/// The values of a running service after it has reloaded `file`: options that need a restart keep their value.
#[must_use]
pub fn after_reload(running: &Public, file: &Public) -> Public {
    let mut shown = file.clone();
    for change in changes(running, file) {
        if change.effect == OptionEffect::Restart {
            shown.insert(change.name, change.running);
        }
    }
    shown
}

/// An option that this version does not know (from an agent of another version) needs a restart.
fn effect_of(name: &str) -> OptionEffect {
    let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
    table::find(section, key).map_or(OptionEffect::Restart, |row| row.effect)
}
