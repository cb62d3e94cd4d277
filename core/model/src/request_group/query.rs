//! Builds the query string with its parameters ordered by name, as Nova sends it.

use std::collections::{BTreeMap, BTreeSet};

use super::{GroupSuffix, RequestGroup, RequestGroups};
use crate::{ResourceClass, Trait, query_string};

impl RequestGroups {
    /// The query of GET /allocation_candidates, percent-encoded, without the question mark.
    #[must_use]
    pub fn query(&self) -> String {
        let mut parameters = BTreeSet::new();
        let mut add = |name: String, value: String| {
            parameters.insert((name, value));
        };
        if let Some(policy) = self.policy {
            add("group_policy".into(), policy.as_str().into());
        }
        if let Some(provider) = self.in_tree {
            add("in_tree".into(), provider.to_string());
        }
        if let Some(limit) = self.limit {
            add("limit".into(), limit.to_string());
        }
        let unsuffixed = ("", &self.unsuffixed);
        let suffixed = self.suffixed.iter().map(|(name, g)| (name.as_str(), g));
        for (suffix, group) in std::iter::once(unsuffixed).chain(suffixed) {
            let RequestGroup {
                resources,
                required,
                forbidden,
            } = group;
            // A group of traits alone keeps its empty resources, as Nova's does; `check` refuses it before it is sent.
            if !(suffix.is_empty() && resources.is_empty()) {
                add(format!("resources{suffix}"), amounts(resources));
            }
            if !(required.is_empty() && forbidden.is_empty()) {
                add(format!("required{suffix}"), traits(required, forbidden));
            }
        }
        for (number, suffixes) in self.link_groups.iter().enumerate() {
            let own = GroupSuffix::of_link_group(number);
            add(
                format!("required{own}"),
                Trait::CUSTOM_LINK_GROUP.to_string(),
            );
            let all: BTreeSet<_> = suffixes.iter().chain([&own]).collect();
            let all: Vec<_> = all.into_iter().map(GroupSuffix::as_str).collect();
            add("same_subtree".into(), all.join(","));
        }
        if !(self.root_required.is_empty() && self.root_forbidden.is_empty()) {
            let root = traits(&self.root_required, &self.root_forbidden);
            add("root_required".into(), root);
        }
        query_string(parameters)
    }
}

fn amounts(resources: &BTreeMap<ResourceClass, u64>) -> String {
    let amounts: Vec<_> = resources
        .iter()
        .map(|(class, amount)| format!("{class}:{amount}"))
        .collect();
    amounts.join(",")
}

fn traits(required: &BTreeSet<Trait>, forbidden: &BTreeSet<Trait>) -> String {
    let required = required.iter().map(ToString::to_string);
    let forbidden = forbidden.iter().map(|name| format!("!{name}"));
    required.chain(forbidden).collect::<Vec<_>>().join(",")
}
