//! A query of GET /allocation_candidates as a list of demands. It is read from a query string of a log ([`CandidatesQuery::read`],
//! microversions 1.10 to 1.39) or made from [`RequestGroups`].
//!
//! If a query has no candidates, [`CandidatesQuery::relaxations`] gives the same query without one demand each. A relaxation that has
//! candidates shows which demand failed. Names are not checked, because only Placement knows which exist.
//!
//! Callers: `berth placement explain`; the conductor, if a boot finds no host.

mod read;
mod relax;

use std::collections::{BTreeMap, BTreeSet};

use crate::{GroupPolicy, GroupSuffix, RequestGroup, RequestGroups, Trait, query_string};

pub use read::CandidatesQueryError;
pub use relax::{QueryDemand, QueryRelaxation};

/// A query of GET /allocation_candidates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CandidatesQuery {
    /// The groups by suffix. The group without a suffix may take its resources from several providers.
    groups: BTreeMap<Option<GroupSuffix>, CandidatesQueryGroup>,
    policy: Option<GroupPolicy>,
    same_subtrees: Vec<BTreeSet<String>>,
    root_required: BTreeSet<String>,
    root_forbidden: BTreeSet<String>,
    limit: Option<u32>,
}

/// The demands of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct CandidatesQueryGroup {
    resources: BTreeMap<String, u64>,
    required: BTreeSet<String>,
    /// At least one trait of each set.
    any_of: BTreeSet<BTreeSet<String>>,
    forbidden: BTreeSet<String>,
    /// Aggregates as in the query: a UUID, `in:A,B`, `!A`, `!in:A,B`.
    member_of: BTreeSet<String>,
    /// The UUID of a provider.
    in_tree: Option<String>,
}

impl CandidatesQueryGroup {
    /// Whether it has no resources and only restricts where other groups are (`same_subtree`).
    fn is_resourceless(&self) -> bool {
        self.resources.is_empty()
    }

    /// Whether it stands for a link group. Other groups name it in `same_subtree`; alone it demands nothing.
    fn is_link_group(&self) -> bool {
        let link_group = Self {
            required: BTreeSet::from([Trait::CUSTOM_LINK_GROUP.to_string()]),
            ..Self::default()
        };
        *self == link_group
    }
}

impl CandidatesQuery {
    /// The oldest microversion that has all of its parameters: 1.36, which the conductor uses, or 1.39 for a choice of traits.
    #[must_use]
    pub fn microversion(&self) -> u16 {
        const SAME_SUBTREE: u16 = 36;
        const ANY_TRAITS: u16 = 39;
        let mut groups = self.groups.values();
        match groups.any(|group| !group.any_of.is_empty()) {
            true => ANY_TRAITS,
            false => SAME_SUBTREE,
        }
    }

    /// The same query with this limit of candidates; `None`: all candidates.
    #[must_use]
    pub fn limited(mut self, limit: Option<u32>) -> Self {
        self.limit = limit;
        self
    }

    /// The limit of candidates; `None`: all candidates.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// The query string, percent-encoded, without the question mark.
    #[must_use]
    pub fn query(&self) -> String {
        let mut parameters: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, suffix: &str, value: String| {
            parameters.push((format!("{name}{suffix}"), value));
        };
        for (suffix, group) in &self.groups {
            let suffix = suffix.as_ref().map_or("", GroupSuffix::as_str);
            if !group.resources.is_empty() {
                let amounts = group.resources.iter();
                let amounts = amounts.map(|(class, amount)| format!("{class}:{amount}"));
                add("resources", suffix, joined(amounts));
            }
            let traits = traits(&group.required, &group.forbidden);
            if !traits.is_empty() {
                add("required", suffix, traits);
            }
            for any_of in &group.any_of {
                add("required", suffix, format!("in:{}", joined(any_of.iter())));
            }
            for member_of in &group.member_of {
                add("member_of", suffix, member_of.clone());
            }
            if let Some(provider) = &group.in_tree {
                add("in_tree", suffix, provider.clone());
            }
        }
        if let Some(policy) = self.policy {
            add("group_policy", "", policy.as_str().to_owned());
        }
        for suffixes in &self.same_subtrees {
            add("same_subtree", "", joined(suffixes.iter()));
        }
        let root = traits(&self.root_required, &self.root_forbidden);
        if !root.is_empty() {
            add("root_required", "", root);
        }
        if let Some(limit) = self.limit {
            add("limit", "", limit.to_string());
        }
        query_string(parameters)
    }

    /// Whether Placement accepts it: it has resources, and each group without resources belongs to one with resources.
    fn is_valid(&self) -> bool {
        let named: BTreeSet<&str> = self
            .same_subtrees
            .iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let is_tied = |suffix: &Option<GroupSuffix>| {
            suffix
                .as_ref()
                .is_some_and(|suffix| named.contains(suffix.as_str()))
        };
        let mut groups = self.groups.iter();
        let has_resources = self.groups.values().any(|group| !group.is_resourceless());
        has_resources && groups.all(|(suffix, group)| !group.is_resourceless() || is_tied(suffix))
    }
}

impl From<&RequestGroups> for CandidatesQuery {
    fn from(groups: &RequestGroups) -> Self {
        let of_group = |group: &RequestGroup| {
            let names = |traits: &BTreeSet<Trait>| -> BTreeSet<String> {
                traits.iter().map(ToString::to_string).collect()
            };
            let amounts = group.resources.iter();
            CandidatesQueryGroup {
                resources: amounts
                    .map(|(class, amount)| (class.to_string(), *amount))
                    .collect(),
                required: names(&group.required),
                forbidden: names(&group.forbidden),
                ..CandidatesQueryGroup::default()
            }
        };
        let suffixed = groups
            .suffixed()
            .map(|(suffix, group)| (Some(suffix.clone()), of_group(group)));
        let mut query = Self {
            groups: suffixed.collect(),
            policy: groups.policy(),
            root_required: groups.root_required().map(ToString::to_string).collect(),
            root_forbidden: groups.root_forbidden().map(ToString::to_string).collect(),
            limit: groups.limit(),
            same_subtrees: Vec::new(),
        };
        for (number, suffixes) in groups.link_groups().iter().enumerate() {
            let own = GroupSuffix::of_link_group(number);
            let all = suffixes.iter().chain([&own]).map(ToString::to_string);
            query.same_subtrees.push(all.collect());
            let group = CandidatesQueryGroup {
                required: BTreeSet::from([Trait::CUSTOM_LINK_GROUP.to_string()]),
                ..CandidatesQueryGroup::default()
            };
            query.groups.insert(Some(own), group);
        }
        let mut unsuffixed = of_group(groups.unsuffixed());
        unsuffixed.in_tree = groups.in_tree().map(|provider| provider.to_string());
        if unsuffixed != CandidatesQueryGroup::default() {
            query.groups.insert(None, unsuffixed);
        }
        query
    }
}

fn traits(required: &BTreeSet<String>, forbidden: &BTreeSet<String>) -> String {
    let forbidden = forbidden.iter().map(|name| format!("!{name}"));
    joined(required.iter().cloned().chain(forbidden))
}

fn joined<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let items: Vec<_> = items.map(|item| item.to_string()).collect();
    items.join(",")
}

#[cfg(test)]
mod tests;
