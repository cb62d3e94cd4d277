//! What becomes of each of Nova's options: the table of the import, as data.
//!
//! A rule for a key of a group comes before the rule for the whole group (no keys). `tests/table.rs` proves that each option of Nova 34
//! has a rule, and that each target is an option of Berth.

mod clients;
mod control;
mod defaults;
mod host;

use crate::facts::{NovaOption, is_helper};

/// The section for options of `[DEFAULT]` that only a host in a Nova cell needs.
const CELL: &str = "cell";

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportRule {
    /// Berth has the option by the same name.
    Same,
    /// Berth has it as this option (section, key).
    Other(&'static str, &'static str),
    /// Nova's path of a driver's class; Berth has a word.
    Driver,
    /// The role of this host in a Nova cell needs it by the same name. This release does not read it yet.
    NotYet,
    /// It has no meaning for Berth on this host, for this reason.
    Meaningless(&'static str),
    /// Berth cannot do it: the reason and what follows.
    Impossible(&'static str),
    /// Berth always works as one of these values says; for another one there is a reason and what follows.
    Fixed(&'static [&'static str], &'static str),
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleRow {
    group: &'static str,
    /// Empty for every key of the group that has no row of its own.
    keys: &'static [&'static str],
    rule: ImportRule,
}

const fn row(group: &'static str, keys: &'static [&'static str], rule: ImportRule) -> RuleRow {
    RuleRow { group, keys, rule }
}

impl ImportRule {
    /// The rule of an option; `None` if the table has none.
    #[must_use]
    pub fn of(option: &NovaOption) -> Option<Self> {
        let group = match &*option.group {
            group if is_helper(group) => "privsep",
            group if group.starts_with("mdev_") => "mdev_TYPE",
            group if group.starts_with("neutron_") => "neutron_NETWORK",
            group => group,
        };
        let all = [defaults::ROWS, host::ROWS, clients::ROWS, control::ROWS];
        let rows = all.iter().flat_map(|rows| rows.iter());
        let mut rows: Vec<&RuleRow> = rows.filter(|it| it.group == group).collect();
        rows.sort_by_key(|it| it.keys.is_empty());
        let mut rows = rows.into_iter();
        let found = rows.find(|it| it.keys.is_empty() || it.keys.contains(&&*option.name));
        found.map(|it| it.rule).or_else(|| {
            let is_client = clients::GROUPS.contains(&group);
            is_client.then(|| clients::of_client(&option.name))?
        })
    }

    /// Every group and key that the table names.
    pub fn keys() -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = [defaults::ROWS, host::ROWS, clients::ROWS, control::ROWS];
        let rows = all.into_iter().flat_map(|rows| rows.iter());
        rows.flat_map(|row| row.keys.iter().map(|key| (row.group, *key)))
    }

    /// All rules that have an option of Berth as their target: Nova's group and key, then Berth's section and key.
    pub fn targets()
    -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
        let all = [defaults::ROWS, host::ROWS, clients::ROWS, control::ROWS];
        let rows = all.into_iter().flat_map(|rows| rows.iter());
        let of_rows = rows.flat_map(|row| {
            row.keys.iter().filter_map(|key| match row.rule {
                Self::Same => Some((row.group, *key, section_of(row.group), *key)),
                Self::Other(section, target) => Some((row.group, *key, section, target)),
                _ => None,
            })
        });
        of_rows.chain(clients::targets())
    }

    /// Where the option goes, as section and key.
    #[must_use]
    pub fn target(self, option: &NovaOption) -> Option<(String, String)> {
        match self {
            Self::Same => {
                let section = section_of(&option.group);
                Some((section.to_owned(), option.name.to_string()))
            }
            Self::NotYet => {
                let section = match &*option.group {
                    "DEFAULT" => CELL,
                    group => group,
                };
                Some((section.to_owned(), option.name.to_string()))
            }
            Self::Other(section, key) => Some((section.to_owned(), key.to_owned())),
            Self::Driver => Some((String::new(), "compute_driver".to_owned())),
            Self::Meaningless(_) | Self::Impossible(_) | Self::Fixed(..) => None,
        }
    }
}

/// Berth's section of a group.
fn section_of(group: &str) -> &str {
    match group {
        "DEFAULT" => "",
        group => group,
    }
}
