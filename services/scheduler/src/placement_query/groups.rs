//! Request groups and their encoding as a query string.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{GroupSuffix, Trait, query_string};

use super::prefilters::PrefilterDemands;
use crate::numbers;

/// Resources and traits of one provider. The group without a suffix may be satisfied by several providers of one tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceGroup {
    pub resources: BTreeMap<String, i64>,
    pub required_traits: BTreeSet<String>,
    pub forbidden_traits: BTreeSet<String>,
    /// The provider must be in at least one aggregate of each list.
    pub aggregates: Vec<Vec<String>>,
    pub forbidden_aggregates: BTreeSet<String>,
    /// Restricts the candidates to the tree of this provider.
    pub in_tree: Option<String>,
}

impl ResourceGroup {
    /// Adds an amount of a standard or custom class. As in Nova, other classes and negative amounts are ignored.
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
        // As Nova does, a group that only has traits gets an empty `resources` parameter.
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

/// All request groups of a query.
#[derive(Debug, Clone, Default)]
pub(super) struct ResourceGroups {
    /// By suffix. The resources of the group with the empty suffix may come from several providers.
    pub(super) by_suffix: BTreeMap<String, ResourceGroup>,
    pub(super) policy: Option<String>,
    /// Suffixes of groups whose providers must be below one link group, a set for each link group.
    pub(super) link_groups: Vec<BTreeSet<String>>,
    /// Suffixes of groups whose providers must be in one subtree, a set for each subtree.
    pub(super) same_subtrees: Vec<BTreeSet<String>>,
}

impl ResourceGroups {
    pub(super) fn of(&mut self, suffix: &str) -> &mut ResourceGroup {
        self.by_suffix.entry(suffix.to_owned()).or_default()
    }

    pub(super) fn unsuffixed(&mut self) -> &mut ResourceGroup {
        self.of("")
    }

    /// The number of groups with a suffix, without those that stand for link groups.
    pub(super) fn suffixed(&self) -> usize {
        self.by_suffix.keys().filter(|it| !it.is_empty()).count()
    }

    /// Whether any group requests the class, even with an amount of 0.
    pub(super) fn has(&self, class: &str) -> bool {
        let mut groups = self.by_suffix.values();
        groups.any(|group| group.resources.contains_key(class))
    }

    /// Adds an extra spec `resources$S:CLASS`, `trait$S:NAME` or `group_policy`. Other extra specs are ignored.
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

    /// Removes amounts of 0 and empty groups.
    pub(super) fn strip(&mut self) {
        for group in self.by_suffix.values_mut() {
            group.resources.retain(|_, amount| *amount != 0);
        }
        self.by_suffix.retain(|_, group| !group.is_empty());
    }

    /// The query string, with parameters sorted by name and value.
    pub(super) fn query(&self, demands: &PrefilterDemands, limit: Option<usize>) -> String {
        let mut parameters = Vec::new();
        if let Some(limit) = limit {
            parameters.push(("limit".to_owned(), limit.to_string()));
        }
        if let Some(policy) = &self.policy {
            parameters.push(("group_policy".to_owned(), policy.clone()));
        }
        let root = traits(&demands.root_required, &demands.root_forbidden);
        if !root.is_empty() {
            parameters.push(("root_required".to_owned(), root));
        }
        for (suffix, group) in &self.by_suffix {
            group.parameters(suffix, &mut parameters);
        }
        for (number, suffixes) in self.link_groups.iter().enumerate() {
            // Placement accepts a group without resources if `same_subtree` has it, and then refuses an empty `resources`.
            let own = GroupSuffix::of_link_group(number);
            let of_trait = Trait::CUSTOM_LINK_GROUP.to_string();
            parameters.push((format!("required{own}"), of_trait));
            let all = std::iter::once(own.to_string()).chain(suffixes.iter().cloned());
            parameters.push(("same_subtree".to_owned(), sorted(all)));
        }
        for suffixes in &self.same_subtrees {
            let all = sorted(suffixes.iter().cloned());
            parameters.push(("same_subtree".to_owned(), all));
        }
        parameters.sort();
        // As HTML forms encode it: a space is `+`.
        query_string(parameters).replace("%20", "+")
    }
}

/// Whether a text is empty or a valid suffix: up to 64 letters, digits, `_` and `-`.
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
