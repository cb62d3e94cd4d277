//! Parses a query string of GET /allocation_candidates, as the logs of Placement and Nova contain it.

use std::collections::BTreeSet;

use super::{CandidatesQuery, CandidatesQueryGroup};
use crate::{GroupPolicy, GroupSuffix};

/// The text is not a query of GET /allocation_candidates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CandidatesQueryError {
    /// The text is empty.
    #[error("the query is empty: it needs resources, for instance resources=VCPU:2,MEMORY_MB:1024")]
    Empty,
    /// A part has no `=`.
    #[error("{part:?} is not a parameter of a query; write NAME=VALUE, and & between two")]
    NoValue {
        /// The text between two `&`, at most 80 characters of it.
        part: String,
    },
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("{part:?} is not percent-encoded correctly")]
    Encoding {
        /// The text between two `&`, at most 80 characters of it.
        part: String,
    },
    /// A parameter that no microversion has.
    #[error(
        "there is no parameter {name:?}: resources, required, member_of and in_tree are known, each with the suffix of a group, \
         and group_policy, same_subtree, root_required and limit"
    )]
    Name {
        /// The name of the parameter as given.
        name: String,
    },
    /// The parameter may occur only once.
    #[error("parameter {name} is given twice")]
    Twice {
        /// The name of the parameter as given.
        name: String,
    },
    /// The value is invalid.
    #[error("{name}={value:?} is not a valid parameter: {expected}")]
    Value {
        /// The name of the parameter with the invalid value.
        name: String,
        /// The value as given, percent-decoded.
        value: String,
        /// A sentence that says which values are allowed.
        expected: &'static str,
    },
}

impl CandidatesQuery {
    /// Parses a query string. Text before a `?` (a method, an address) and after the next blank is ignored. Fails with
    /// the first part that is invalid.
    pub fn read(text: &str) -> Result<Self, CandidatesQueryError> {
        let text = text.split_once('?').map_or(text, |(_, query)| query).trim();
        let text = text.split([' ', '"', '\'']).next().unwrap_or_default();
        let mut query = Self::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| CandidatesQueryError::NoValue { part: shown(part) })?;
            let (name, value) = (decoded(name)?, decoded(value)?);
            query.take(&name, &value)?;
        }
        if query.groups.is_empty() {
            return Err(CandidatesQueryError::Empty);
        }
        Ok(query)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), CandidatesQueryError> {
        let wrong = |expected| CandidatesQueryError::Value {
            name: shown(name),
            value: shown(value),
            expected,
        };
        let twice = || CandidatesQueryError::Twice { name: shown(name) };
        match name {
            "limit" => {
                let limit = value.parse().ok().filter(|limit| *limit > 0);
                self.limit = Some(limit.ok_or_else(|| wrong("a number of at least 1"))?);
            }
            "group_policy" => {
                let policy = match value {
                    "none" => GroupPolicy::None,
                    "isolate" => GroupPolicy::Isolate,
                    _ => return Err(wrong("none or isolate")),
                };
                if self.policy.replace(policy).is_some() {
                    return Err(twice());
                }
            }
            "same_subtree" => {
                let suffixes = items(value).ok_or_else(|| wrong("suffixes, with , between two"))?;
                self.same_subtrees.push(suffixes);
            }
            "root_required" => {
                if !(self.root_required.is_empty() && self.root_forbidden.is_empty()) {
                    return Err(twice());
                }
                let traits = items(value).ok_or_else(|| wrong(TRAITS))?;
                sort_out(traits, &mut self.root_required, &mut self.root_forbidden);
            }
            _ => {
                let known = GROUP_PARAMETERS.into_iter();
                let (parameter, suffix) = known
                    .filter_map(|it| Some((it, name.strip_prefix(it)?)))
                    .next()
                    .ok_or_else(|| CandidatesQueryError::Name { name: shown(name) })?;
                let suffix = match suffix {
                    "" => None,
                    suffix => Some(
                        GroupSuffix::new(suffix)
                            .map_err(|_| CandidatesQueryError::Name { name: shown(name) })?,
                    ),
                };
                let group = self.groups.entry(suffix).or_default();
                group.take(parameter, value, &wrong, &twice)?;
            }
        }
        Ok(())
    }
}

/// The parameters of a group; none is a prefix of another.
const GROUP_PARAMETERS: [&str; 4] = ["resources", "required", "member_of", "in_tree"];

const TRAITS: &str = "traits separated by commas, with ! before a forbidden one";

impl CandidatesQueryGroup {
    fn take(
        &mut self,
        parameter: &str,
        value: &str,
        wrong: &dyn Fn(&'static str) -> CandidatesQueryError,
        twice: &dyn Fn() -> CandidatesQueryError,
    ) -> Result<(), CandidatesQueryError> {
        match parameter {
            "resources" => {
                if !self.resources.is_empty() {
                    return Err(twice());
                }
                let expected = || wrong("CLASS:AMOUNT, separated by commas, with amounts from 1");
                for item in items(value).ok_or_else(expected)? {
                    let (class, amount) = item.split_once(':').ok_or_else(expected)?;
                    let amount = amount.trim().parse().ok().filter(|amount| *amount > 0);
                    let amount = amount.ok_or_else(expected)?;
                    self.resources.insert(class.trim().to_owned(), amount);
                }
            }
            "required" => match value.strip_prefix("in:") {
                Some(any_of) => {
                    let any_of = items(any_of).ok_or_else(|| wrong(TRAITS))?;
                    self.any_of.insert(any_of);
                }
                None => {
                    let traits = items(value).ok_or_else(|| wrong(TRAITS))?;
                    sort_out(traits, &mut self.required, &mut self.forbidden);
                }
            },
            "member_of" => {
                items(value)
                    .ok_or_else(|| wrong("the UUID of an aggregate, or in: and several"))?;
                self.member_of.insert(value.to_owned());
            }
            _ => {
                if value.is_empty() {
                    return Err(wrong("the UUID of a provider"));
                }
                if self.in_tree.replace(value.to_owned()).is_some() {
                    return Err(twice());
                }
            }
        }
        Ok(())
    }
}

/// The items of a list; `None` if one of them is empty.
fn items(value: &str) -> Option<BTreeSet<String>> {
    let items: BTreeSet<_> = value
        .split(',')
        .map(|item| item.trim().to_owned())
        .collect();
    (!items.contains("")).then_some(items)
}

fn sort_out(
    traits: BTreeSet<String>,
    required: &mut BTreeSet<String>,
    forbidden: &mut BTreeSet<String>,
) {
    for name in traits {
        match name.strip_prefix('!') {
            Some(bare) => forbidden.insert(bare.trim_start_matches('!').to_owned()),
            None => required.insert(name),
        };
    }
}

fn decoded(part: &str) -> Result<String, CandidatesQueryError> {
    let wrong = || CandidatesQueryError::Encoding { part: shown(part) };
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || {
                    let digit = char::from(rest.next()?).to_digit(16)?;
                    u8::try_from(digit).ok()
                };
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                high * 16 + low
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// The beginning of a text, for an error.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
