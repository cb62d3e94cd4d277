//! Request groups, and the query string that they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::prefilters::Wishes;
use crate::numbers;

/// Resources and traits of one provider, or for the group without a suffix of one tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceGroup {
    /// Amounts by resource class.
    pub resources: BTreeMap<String, i64>,
    /// Traits that are needed.
    pub required_traits: BTreeSet<String>,
    /// Traits that must not be.
    pub forbidden_traits: BTreeSet<String>,
    /// Of each list at least one aggregate.
    pub aggregates: Vec<Vec<String>>,
    pub forbidden_aggregates: BTreeSet<String>,
    /// Only in the tree of this provider.
    pub in_tree: Option<String>,
}

impl ResourceGroup {
    /// Of a class that is standard or one's own; others are left aside, as Nova does, and so is what is no amount.
    pub(super) fn add_resource(&mut self, class: &str, amount: i64) {
        let is_standard = berth_model::ResourceClass::STANDARD.contains(&class);
        if (is_standard || class.starts_with("CUSTOM_")) && amount >= 0 {
            self.resources.insert(class.to_owned(), amount);
        }
    }

    pub(super) fn require(&mut self, name: &str) {
        self.required_traits.insert(name.to_owned());
    }

    fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.required_traits.is_empty()
            && self.forbidden_traits.is_empty()
            && self.aggregates.is_empty()
            && self.forbidden_aggregates.is_empty()
    }

    fn parameters(&self, suffix: &str, into: &mut Vec<(String, String)>) {
        let mut add = |name: &str, value| into.push((format!("{name}{suffix}"), value));
        let amounts = self.resources.iter();
        let amounts = sorted(amounts.map(|(class, amount)| format!("{class}:{amount}")));
        // A group of traits alone has resources too, which are nothing: as Nova asks.
        add("resources", amounts);
        let traits = traits(&self.required_traits, &self.forbidden_traits);
        if !traits.is_empty() {
            add("required", traits);
        }
        for any_of in &self.aggregates {
            add(
                "member_of",
                format!("in:{}", sorted(any_of.iter().cloned())),
            );
        }
        if let Some(provider) = &self.in_tree {
            add("in_tree", provider.clone());
        }
        if !self.forbidden_aggregates.is_empty() {
            let none_of = sorted(self.forbidden_aggregates.iter().cloned());
            add("member_of", format!("!in:{none_of}"));
        }
    }
}

/// All groups of a question.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    /// By suffix; the empty one is of the group whose resources may come from several providers.
    pub(super) by_suffix: BTreeMap<String, ResourceGroup>,
    pub(super) policy: Option<String>,
}

impl Groups {
    pub(super) fn of(&mut self, suffix: &str) -> &mut ResourceGroup {
        self.by_suffix.entry(suffix.to_owned()).or_default()
    }

    pub(super) fn unsuffixed(&mut self) -> &mut ResourceGroup {
        self.of("")
    }

    /// How many have a suffix.
    pub(super) fn suffixed(&self) -> usize {
        self.by_suffix.keys().filter(|it| !it.is_empty()).count()
    }

    /// Whether a class is asked for in any group, be it an amount of 0.
    pub(super) fn has(&self, class: &str) -> bool {
        let mut groups = self.by_suffix.values();
        groups.any(|group| group.resources.contains_key(class))
    }

    /// An extra spec `resources$S:CLASS`, `trait$S:NAME` or `group_policy`; others are not for Placement.
    pub(super) fn add_spec(&mut self, name: &str, value: &str) {
        if name == "group_policy" {
            if ["none", "isolate"].contains(&value) {
                self.policy = Some(value.to_owned());
            }
            return;
        }
        let Some((head, name)) = name.split_once(':') else {
            return;
        };
        if let Some(suffix) = head.strip_prefix("resources").filter(|it| is_suffix(it)) {
            let amount = numbers::int(value).unwrap_or(-1);
            self.of(suffix).add_resource(name, amount);
        } else if let Some(suffix) = head.strip_prefix("trait").filter(|it| is_suffix(it)) {
            let group = self.of(suffix);
            match value {
                "required" => group.require(name),
                "forbidden" => {
                    group.forbidden_traits.insert(name.to_owned());
                }
                _ => {}
            }
        }
    }

    /// Without amounts of 0, and without groups that ask for nothing.
    pub(super) fn strip(&mut self) {
        for group in self.by_suffix.values_mut() {
            group.resources.retain(|_, amount| *amount != 0);
        }
        self.by_suffix.retain(|_, group| !group.is_empty());
    }

    /// The query string: parameters by name and value.
    pub(super) fn query(&self, wishes: &Wishes, limit: Option<usize>) -> String {
        let mut parameters = Vec::new();
        if let Some(limit) = limit {
            parameters.push(("limit".to_owned(), limit.to_string()));
        }
        if let Some(policy) = &self.policy {
            parameters.push(("group_policy".to_owned(), policy.clone()));
        }
        let root = traits(&wishes.root_required, &wishes.root_forbidden);
        if !root.is_empty() {
            parameters.push(("root_required".to_owned(), root));
        }
        for (suffix, group) in &self.by_suffix {
            group.parameters(suffix, &mut parameters);
        }
        parameters.sort();
        encoded(&parameters)
    }
}

/// A suffix, or none: up to 64 letters, digits, `_` and `-`.
fn is_suffix(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    text.len() <= 64 && text.bytes().all(is_allowed)
}

fn traits(required: &BTreeSet<String>, forbidden: &BTreeSet<String>) -> String {
    let forbidden = forbidden.iter().map(|name| format!("!{name}"));
    let all: Vec<String> = required.iter().cloned().chain(forbidden).collect();
    all.join(",")
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.join(",")
}

/// As HTML forms are encoded: a blank is `+`, and what is no letter, digit or one of `-._~` is written as its bytes.
fn encoded(parameters: &[(String, String)]) -> String {
    let mut query = String::new();
    for (name, value) in parameters {
        if !query.is_empty() {
            query.push('&');
        }
        encode(name, &mut query);
        query.push('=');
        encode(value, &mut query);
    }
    query
}

fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b' ' => into.push('+'),
            b'-' | b'.' | b'_' | b'~' => into.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => into.push(char::from(byte)),
            // Writing to a text does not fail.
            byte => {
                let _ = write!(into, "%{byte:02X}");
            }
        }
    }
}
