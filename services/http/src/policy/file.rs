//! A policy file: YAML, the name of a rule before its text, as OpenStack's services read it.
//!
//! A rule that the file does not name keeps its default. The file may name rules of its own, for others to refer to. What
//! oslo.policy passes over with a line in its log is refused: whoever writes a rule means it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use strsim::damerau_levenshtein;

use super::LONGEST_WAY;
use super::language::{RuleError, parse, parse_lists};
use super::rule::Rule;

/// The longest file, in bytes.
const LONGEST: usize = 1 << 20;

/// Why a policy file cannot be used. Lines are counted from one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFileError {
    /// It is longer than a megabyte.
    #[error("it has {0} bytes; at most {LONGEST} are read")]
    Long(usize),
    /// It is no YAML, or not names with rules.
    #[error("names of rules, each with a text, are expected: {0}")]
    Malformed(String),
    /// The text is no rule.
    #[error("line {line}: {rule}: {reason}")]
    Rule {
        line: u64,
        rule: String,
        reason: RuleError,
    },
    /// The service asks for no such rule, and no other rule refers to it.
    #[error("line {line}: {rule}: there is no such rule, and no other refers to it{}", guess(nearest.as_deref()))]
    Unknown {
        line: u64,
        rule: String,
        /// A name like it.
        nearest: Option<String>,
    },
    /// It refers to a rule that is not there.
    #[error("line {line}: {rule}: there is no rule:{missing}{}", guess(nearest.as_deref()))]
    Missing {
        line: u64,
        rule: String,
        /// What it refers to.
        missing: String,
        /// A name like it.
        nearest: Option<String>,
    },
    /// It refers to itself.
    #[error("line {line}: {rule}: it refers to itself: {}", way.join(" -> "))]
    Circular {
        line: u64,
        rule: String,
        /// The way round, from the rule to itself.
        way: Vec<String>,
    },
    /// Too many rules refer to one another in a row.
    #[error("line {line}: {rule}: more than {LONGEST_WAY} rules refer to one another in a row")]
    Far {
        line: u64,
        /// The first of them.
        rule: String,
    },
}

fn guess(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// The rules of a file, each with its line, not yet compared with a service's.
#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    pub(super) rules: BTreeMap<String, (u64, Rule)>,
}

impl PolicyFile {
    /// Reads the text of a file; an empty one has no rules.
    pub fn read(text: &str) -> Result<Self, PolicyFileError> {
        if text.len() > LONGEST {
            return Err(PolicyFileError::Long(text.len()));
        }
        let read: Option<BTreeMap<String, Spanned<Text>>> = serde_saphyr::from_str(text)
            .map_err(|error| PolicyFileError::Malformed(error.to_string()))?;
        let mut rules = BTreeMap::new();
        for (name, text) in read.unwrap_or_default() {
            let line = text.defined.line();
            let rule = match &text.value {
                Text::Words(words) => parse(words),
                Text::Lists(lists) => parse_lists(lists),
            };
            let rule = rule.map_err(|reason| PolicyFileError::Rule {
                line,
                rule: name.clone(),
                reason,
            })?;
            rules.insert(name, (line, rule));
        }
        Ok(Self { rules })
    }

    /// Compares the file with the rules of a service: their names, and those that stand there only to be referred to.
    pub(super) fn check(&self, of_service: &BTreeMap<&str, &Rule>) -> Result<(), PolicyFileError> {
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
                    return Err(PolicyFileError::Missing {
                        line,
                        rule: rule_name,
                        missing: missing.to_owned(),
                        nearest: nearest(missing, names()),
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
                return Err(PolicyFileError::Unknown {
                    line,
                    rule: rule_name,
                    nearest: nearest(name, of_service.keys().copied()),
                });
            }
        }
        for (name, (line, _)) in &self.rules {
            if let Some(way) = way_round(name, &found) {
                return Err(PolicyFileError::Circular {
                    line: *line,
                    rule: name.clone(),
                    way,
                });
            }
        }
        // Without circles each way ends; how long it is at most is known once that of what it goes on with is.
        let mut lengths = BTreeMap::new();
        for (name, (line, _)) in &self.rules {
            if length(name, &found, &mut lengths) > LONGEST_WAY {
                return Err(PolicyFileError::Far {
                    line: *line,
                    rule: name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The way from a rule to itself, if there is one.
fn way_round<'a>(name: &'a str, found: &impl Fn(&str) -> Option<&'a Rule>) -> Option<Vec<String>> {
    let mut seen = vec![name];
    // Each way that was gone so far, by its last rule and the way before it.
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

/// How many rules the longest way from a rule has, itself included.
fn length<'a>(
    name: &'a str,
    found: &impl Fn(&str) -> Option<&'a Rule>,
    lengths: &mut BTreeMap<&'a str, usize>,
) -> usize {
    let mut ahead = vec![name];
    while let Some(last) = ahead.last().copied() {
        let references = found(last).map(Rule::references).unwrap_or_default();
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

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let distances = known
        .filter(|each| *each != name)
        .map(|each| (damerau_levenshtein(name, each), each));
    let (distance, nearest) = distances.min()?;
    (distance * 3 <= name.chars().count()).then(|| nearest.to_owned())
}

/// The text of a rule in either form.
enum Text {
    Words(String),
    Lists(Vec<Vec<String>>),
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of a rule, or a list of lists of checks")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text::Words(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut lists: A) -> Result<Text, A::Error> {
                let mut all = Vec::new();
                while let Some(list) = lists.next_element::<Inner>()? {
                    all.push(list.0);
                }
                Ok(Text::Lists(all))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// One of the lists; a check alone is a list of it.
struct Inner(Vec<String>);

impl<'de> Deserialize<'de> for Inner {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Inner;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of checks")
            }

            fn visit_str<E: de::Error>(self, check: &str) -> Result<Inner, E> {
                Ok(Inner(vec![check.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut checks: A) -> Result<Inner, A::Error> {
                let mut all = Vec::new();
                while let Some(check) = checks.next_element::<String>()? {
                    all.push(check);
                }
                Ok(Inner(all))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
