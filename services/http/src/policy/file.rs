//! A policy file: YAML that maps the name of a rule to its text, as OpenStack's services read it.
//!
//! A rule that the file does not name keeps its default. The file may define rules that only other rules refer to.
//! Entries that oslo.policy ignores with a log line are errors here.

use std::collections::BTreeMap;
use std::fmt;

use berth_wire::nearest_name;
use serde::Deserialize;
use serde::de::{self, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::MAX_REFERENCE_CHAIN;
use super::language::{RuleError, parse, parse_lists};
use super::rule::PolicyRule;

/// The longest file, in bytes.
const LONGEST: usize = 1 << 20;

/// Why a policy file cannot be used. Lines are counted from one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// The file is longer than a megabyte.
    #[error("it has {0} bytes; at most {LONGEST} are read")]
    Long(usize),
    /// The file is not YAML, or does not map names to rules.
    #[error("names of rules, each with a text, are expected: {0}")]
    Malformed(String),
    /// The text is no rule.
    #[error("line {line}: {rule}: {reason}")]
    Rule {
        line: u64,
        rule: String,
        reason: RuleError,
    },
    /// The service has no rule of this name, and no other rule refers to it.
    #[error("line {line}: {rule}: there is no such rule, and no other refers to it{}", guess(nearest.as_deref()))]
    Unknown {
        line: u64,
        rule: String,
        nearest: Option<String>,
    },
    /// A rule refers to an unknown rule.
    #[error("line {line}: {rule}: there is no rule:{missing}{}", guess(nearest.as_deref()))]
    Missing {
        line: u64,
        rule: String,
        missing: String,
        nearest: Option<String>,
    },
    /// A rule refers to itself.
    #[error("line {line}: {rule}: it refers to itself: {}", way.join(" -> "))]
    Circular {
        line: u64,
        rule: String,
        /// The cycle, from the rule back to itself.
        way: Vec<String>,
    },
    /// Too many rules refer to one another in a row.
    #[error(
        "line {line}: {rule}: more than {MAX_REFERENCE_CHAIN} rules refer to one another in a row"
    )]
    Far {
        line: u64,
        /// The first of them.
        rule: String,
    },
}

/// All errors of a file, at least one, in the order of their lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFileErrors(Vec<PolicyFileError>);

impl PolicyFileErrors {
    pub fn iter(&self) -> impl Iterator<Item = &PolicyFileError> {
        self.0.iter()
    }
}

impl From<PolicyFileError> for PolicyFileErrors {
    fn from(error: PolicyFileError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for PolicyFileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<String> = self.iter().map(ToString::to_string).collect();
        f.write_str(&errors.join("\n"))
    }
}

impl std::error::Error for PolicyFileErrors {}

impl PolicyFileError {
    /// The line in the file; 0 if the error concerns the whole file.
    fn line(&self) -> u64 {
        match self {
            Self::Long(_) | Self::Malformed(_) => 0,
            Self::Rule { line, .. }
            | Self::Unknown { line, .. }
            | Self::Missing { line, .. }
            | Self::Circular { line, .. }
            | Self::Far { line, .. } => *line,
        }
    }
}

fn guess(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// The rules of a file, each with its line, not yet compared with a service's.
#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub(super) rules: BTreeMap<String, (u64, PolicyRule)>,
    /// Rules that cannot be parsed. In `rules` they are [`PolicyRule::Nobody`].
    invalid: Vec<PolicyFileError>,
}

impl PolicyFile {
    /// Reads the text of a file; an empty one has no rules. Errors in rules are reported with all others by
    /// [`Policy::with_file`](super::Policy::with_file).
    pub fn read(text: &str) -> Result<Self, PolicyFileErrors> {
        if text.len() > LONGEST {
            return Err(PolicyFileError::Long(text.len()).into());
        }
        let read: Option<BTreeMap<String, Spanned<RuleText>>> = serde_saphyr::from_str(text)
            .map_err(|error| PolicyFileError::Malformed(error.to_string()))?;
        let mut file = Self::default();
        for (name, text) in read.unwrap_or_default() {
            let line = text.defined.line();
            let rule = match &text.value {
                RuleText::Words(words) => parse(words),
                RuleText::Lists(lists) => parse_lists(lists),
            };
            let rule = rule.unwrap_or_else(|reason| {
                let rule = name.clone();
                file.invalid
                    .push(PolicyFileError::Rule { line, rule, reason });
                PolicyRule::Nobody
            });
            file.rules.insert(name, (line, rule));
        }
        Ok(file)
    }

    /// Checks the file against the rules of a service, including rules that exist only as references.
    pub(super) fn check(
        &self,
        of_service: &BTreeMap<&str, &PolicyRule>,
    ) -> Result<(), PolicyFileErrors> {
        let mut errors = self.invalid.clone();
        let names = || {
            of_service
                .keys()
                .copied()
                .chain(self.rules.keys().map(String::as_str))
        };
        let found = |name: &str| {
            let own = self.rules.get(name).map(|(_, rule)| rule);
            own.or_else(|| of_service.get(name).copied())
        };
        for (name, (line, rule)) in &self.rules {
            let (line, rule_name) = (*line, name.clone());
            for missing in rule.references() {
                if found(missing).is_none() {
                    errors.push(PolicyFileError::Missing {
                        line,
                        rule: rule_name.clone(),
                        missing: missing.to_owned(),
                        nearest: nearest_name(missing, names()).map(str::to_owned),
                    });
                }
            }
            let is_used = || {
                let others = self.rules.values();
                others
                    .flat_map(|(_, rule)| rule.references())
                    .any(|used| used == name)
            };
            if !of_service.contains_key(name.as_str()) && !is_used() {
                errors.push(PolicyFileError::Unknown {
                    line,
                    rule: rule_name,
                    nearest: nearest_name(name, of_service.keys().copied()).map(str::to_owned),
                });
            }
        }
        for (name, (line, _)) in &self.rules {
            if let Some(way) = way_round(name, &found) {
                errors.push(PolicyFileError::Circular {
                    line: *line,
                    rule: name.clone(),
                    way,
                });
            }
        }
        if !errors.is_empty() {
            errors.sort_by_key(PolicyFileError::line);
            return Err(PolicyFileErrors(errors));
        }
        // Without cycles every path ends. The depth of a rule is known once the depths of its references are.
        let mut lengths = BTreeMap::new();
        for (name, (line, _)) in &self.rules {
            if length(name, &found, &mut lengths) > MAX_REFERENCE_CHAIN {
                let (line, rule) = (*line, name.clone());
                return Err(PolicyFileError::Far { line, rule }.into());
            }
        }
        Ok(())
    }
}

/// The shortest cycle through a rule, if there is one.
fn way_round<'a>(
    name: &'a str,
    found: &impl Fn(&str) -> Option<&'a PolicyRule>,
) -> Option<Vec<String>> {
    let mut seen = vec![name];
    // A breadth-first search: the paths from the rule so far.
    let mut ways = vec![vec![name]];
    while let Some(way) = ways.pop() {
        let references = way.last().and_then(|last| found(last))?.references();
        for next in references {
            if next == name {
                let way = way.iter().copied().chain([name]);
                return Some(way.map(str::to_owned).collect());
            }
            if !seen.contains(&next) {
                seen.push(next);
                let way = way.iter().copied().chain([next]);
                ways.push(way.collect());
            }
        }
    }
    None
}

/// The number of rules on the longest path of references from a rule, including itself.
fn length<'a>(
    name: &'a str,
    found: &impl Fn(&str) -> Option<&'a PolicyRule>,
    lengths: &mut BTreeMap<&'a str, usize>,
) -> usize {
    let mut ahead = vec![name];
    while let Some(last) = ahead.last().copied() {
        let references = found(last).map(PolicyRule::references).unwrap_or_default();
        let unknown = references.iter().find(|next| !lengths.contains_key(*next));
        if let Some(next) = unknown {
            ahead.push(next);
            continue;
        }
        let longest = references.iter().filter_map(|next| lengths.get(next)).max();
        lengths.insert(last, 1 + longest.copied().unwrap_or_default());
        ahead.pop();
    }
    lengths.get(name).copied().unwrap_or_default()
}

/// The text of a rule in either form.
enum RuleText {
    Words(String),
    Lists(Vec<Vec<String>>),
}

impl<'de> Deserialize<'de> for RuleText {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RuleTextVisitor;

        impl<'de> Visitor<'de> for RuleTextVisitor {
            type Value = RuleText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of a rule, or a list of lists of checks")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RuleText, E> {
                Ok(RuleText::Words(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut lists: A) -> Result<RuleText, A::Error> {
                let mut all = Vec::new();
                while let Some(list) = lists.next_element::<CheckList>()? {
                    all.push(list.0);
                }
                Ok(RuleText::Lists(all))
            }
        }
        deserializer.deserialize_any(RuleTextVisitor)
    }
}

/// One element of the outer list; a check on its own counts as a list of one.
struct CheckList(Vec<String>);

impl<'de> Deserialize<'de> for CheckList {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CheckListVisitor;

        impl<'de> Visitor<'de> for CheckListVisitor {
            type Value = CheckList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of checks")
            }

            fn visit_str<E: de::Error>(self, check: &str) -> Result<CheckList, E> {
                Ok(CheckList(vec![check.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut checks: A) -> Result<CheckList, A::Error> {
                let mut all = Vec::new();
                while let Some(check) = checks.next_element::<String>()? {
                    all.push(check);
                }
                Ok(CheckList(all))
            }
        }
        deserializer.deserialize_any(CheckListVisitor)
    }
}
