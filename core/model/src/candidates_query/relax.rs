//! Relaxations: the query without one demand. If a relaxation has candidates, the demand it leaves out is the reason for none.

use std::collections::BTreeSet;
use std::fmt;

use super::{CandidatesQuery, CandidatesQueryGroup};
use crate::{GroupPolicy, GroupSuffix, Trait};

/// One demand of a query. The first field of a demand of a group is the suffix; `None` is the group without a suffix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueryDemand {
    /// An amount of a class.
    Resource(Option<GroupSuffix>, String, u64),
    /// A trait that the group's provider must have (`required`).
    Required(Option<GroupSuffix>, String),
    /// Traits of which at least one is required.
    AnyOf(Option<GroupSuffix>, BTreeSet<String>),
    /// A trait that the group's provider must not have (`required=!`).
    Forbidden(Option<GroupSuffix>, String),
    /// Aggregates, as in the query: a UUID, `in:A,B`, `!A`, `!in:A,B`.
    MemberOf(Option<GroupSuffix>, String),
    /// The tree of this provider (`in_tree`).
    InTree(Option<GroupSuffix>, String),
    /// A trait that the root provider must have.
    RootRequired(String),
    /// A trait that the root provider must not have.
    RootForbidden(String),
    /// Groups that must be in one subtree (`same_subtree`).
    SameSubtree(BTreeSet<String>),
    /// Groups that must be in one link group (`same_subtree` with a group that requires [`Trait::CUSTOM_LINK_GROUP`] alone, which is
    /// among them).
    LinkGroup(BTreeSet<String>),
    /// Each group needs a provider of its own (`group_policy=isolate`).
    Isolated,
}

impl QueryDemand {
    /// The suffix of its group, if it belongs to one with a suffix.
    #[must_use]
    pub fn group(&self) -> Option<&GroupSuffix> {
        match self {
            Self::Resource(suffix, ..)
            | Self::Required(suffix, _)
            | Self::AnyOf(suffix, _)
            | Self::Forbidden(suffix, _)
            | Self::MemberOf(suffix, _)
            | Self::InTree(suffix, _) => suffix.as_ref(),
            Self::RootRequired(_)
            | Self::RootForbidden(_)
            | Self::SameSubtree(_)
            | Self::LinkGroup(_)
            | Self::Isolated => None,
        }
    }

    /// Whether it contains this class or trait.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        match self {
            Self::Resource(_, class, _) => class == name,
            Self::Required(_, known) | Self::Forbidden(_, known) => known == name,
            Self::RootRequired(known) | Self::RootForbidden(known) => known == name,
            Self::AnyOf(_, known) => known.contains(name),
            Self::LinkGroup(_) => name == Trait::CUSTOM_LINK_GROUP.as_str(),
            Self::MemberOf(..) | Self::InTree(..) | Self::SameSubtree(_) | Self::Isolated => false,
        }
    }
}

impl fmt::Display for QueryDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |names: &BTreeSet<String>| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            names.join(", ")
        };
        match self {
            Self::Resource(_, class, amount) => write!(f, "{amount} {class}")?,
            Self::Required(_, name) => write!(f, "trait {name}")?,
            Self::AnyOf(_, names) => write!(f, "one of the traits {}", listed(names))?,
            Self::Forbidden(_, name) => write!(f, "no trait {name}")?,
            Self::MemberOf(_, aggregates) => write_member_of(aggregates, f)?,
            Self::InTree(None, uuid) if self.group().is_none() => {
                write!(f, "exactly the host {uuid}")?;
            }
            Self::InTree(_, uuid) => write!(f, "a provider of the host {uuid}")?,
            Self::RootRequired(name) => write!(f, "trait {name} of the host")?,
            Self::RootForbidden(name) if name == Trait::COMPUTE_STATUS_DISABLED.as_str() => {
                f.write_str("a host that is not disabled")?;
            }
            Self::RootForbidden(name) => write!(f, "a host without trait {name}")?,
            Self::SameSubtree(groups) => {
                write!(
                    f,
                    "one provider with the others below it for groups {}",
                    listed(groups)
                )?;
            }
            Self::LinkGroup(groups) => {
                let devices = groups.len().saturating_sub(1);
                let noun = if devices == 1 { "device" } else { "devices" };
                write!(f, "{devices} free {noun} in one link group")?;
            }
            Self::Isolated => f.write_str("a provider of its own for each group")?,
        }
        match self.group() {
            Some(suffix) => write!(f, " in group {suffix}"),
            None => Ok(()),
        }
    }
}

fn write_member_of(written: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (negated, rest) = match written.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, written),
    };
    let listed = rest
        .strip_prefix("in:")
        .map(|several| several.replace(',', ", "));
    match (negated, listed) {
        (false, None) => write!(f, "aggregate {rest}"),
        (true, None) => write!(f, "not aggregate {rest}"),
        (false, Some(listed)) => write!(f, "one of the aggregates {listed}"),
        (true, Some(listed)) => write!(f, "none of the aggregates {listed}"),
    }
}

/// A query without one of its demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryRelaxation {
    /// The demand that is left out.
    pub without: QueryDemand,
    /// The query without it.
    pub query: CandidatesQuery,
}

impl CandidatesQuery {
    /// All demands, the most frequent causes of an empty result first.
    #[must_use]
    pub fn demands(&self) -> Vec<QueryDemand> {
        let mut demands = Vec::new();
        // Groups with a suffix are stricter than the one without.
        let of_all = self.groups.iter().filter(|(suffix, _)| suffix.is_none());
        let groups = self.groups.iter().filter(|(suffix, _)| suffix.is_some());
        let groups: Vec<_> = groups.chain(of_all).collect();
        let subtrees = self.same_subtrees.iter().cloned();
        let (link_groups, subtrees): (Vec<_>, Vec<_>) =
            subtrees.partition(|suffixes| self.has_link_group(suffixes));
        demands.extend(link_groups.into_iter().map(QueryDemand::LinkGroup));
        let restricting = groups.iter().filter(|(_, group)| !group.is_link_group());
        for (suffix, group) in restricting {
            let suffix = || (*suffix).clone();
            let required = group.required.iter().cloned();
            demands.extend(required.map(|name| QueryDemand::Required(suffix(), name)));
            let any_of = group.any_of.iter().cloned();
            demands.extend(any_of.map(|names| QueryDemand::AnyOf(suffix(), names)));
            let forbidden = group.forbidden.iter().cloned();
            demands.extend(forbidden.map(|name| QueryDemand::Forbidden(suffix(), name)));
            let member_of = group.member_of.iter().cloned();
            demands.extend(member_of.map(|written| QueryDemand::MemberOf(suffix(), written)));
        }
        for (suffix, group) in &groups {
            let resources = group.resources.iter();
            demands.extend(resources.map(|(class, amount)| {
                QueryDemand::Resource((*suffix).clone(), class.clone(), *amount)
            }));
        }
        demands.extend(
            self.root_required
                .iter()
                .cloned()
                .map(QueryDemand::RootRequired),
        );
        demands.extend(
            self.root_forbidden
                .iter()
                .cloned()
                .map(QueryDemand::RootForbidden),
        );
        demands.extend(subtrees.into_iter().map(QueryDemand::SameSubtree));
        if self.policy == Some(GroupPolicy::Isolate) {
            demands.push(QueryDemand::Isolated);
        }
        for (suffix, group) in &groups {
            let in_tree = group.in_tree.iter().cloned();
            demands.extend(in_tree.map(|uuid| QueryDemand::InTree((*suffix).clone(), uuid)));
        }
        demands
    }

    /// Whether a group of the subtree stands for a link group.
    fn has_link_group(&self, suffixes: &BTreeSet<String>) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|(suffix, group)| {
            let suffix = suffix.as_ref().map(GroupSuffix::as_str);
            group.is_link_group() && suffix.is_some_and(|suffix| suffixes.contains(suffix))
        })
    }

    /// The query without one demand each. The only resource cannot be left out; its relaxation demands one unit of it.
    #[must_use]
    pub fn relaxations(&self) -> Vec<QueryRelaxation> {
        let relaxed = self.demands().into_iter();
        relaxed
            .filter_map(|without| {
                let query = self.without(&without);
                let query = query.or_else(|| self.with_one_unit(&without))?;
                Some(QueryRelaxation { without, query })
            })
            .collect()
    }

    /// The query without a demand; `None` if nothing would be left. A group without resources is only allowed if it
    /// restricts where others are.
    #[must_use]
    pub fn without(&self, demand: &QueryDemand) -> Option<Self> {
        let mut rest = self.clone();
        let group = match demand {
            QueryDemand::RootRequired(_)
            | QueryDemand::RootForbidden(_)
            | QueryDemand::SameSubtree(_)
            | QueryDemand::LinkGroup(_)
            | QueryDemand::Isolated => None,
            of_group => rest.groups.get_mut(&of_group.group().cloned()),
        };
        match (demand, group) {
            (QueryDemand::Resource(_, class, _), Some(group)) => {
                group.resources.remove(class);
            }
            (QueryDemand::Required(_, name), Some(group)) => {
                group.required.remove(name);
            }
            (QueryDemand::AnyOf(_, names), Some(group)) => {
                group.any_of.remove(names);
            }
            (QueryDemand::Forbidden(_, name), Some(group)) => {
                group.forbidden.remove(name);
            }
            (QueryDemand::MemberOf(_, written), Some(group)) => {
                group.member_of.remove(written);
            }
            (QueryDemand::InTree(..), Some(group)) => group.in_tree = None,
            (QueryDemand::RootRequired(name), _) => {
                rest.root_required.remove(name);
            }
            (QueryDemand::RootForbidden(name), _) => {
                rest.root_forbidden.remove(name);
            }
            (QueryDemand::SameSubtree(groups) | QueryDemand::LinkGroup(groups), _) => {
                rest.same_subtrees.retain(|other| other != groups)
            }
            (QueryDemand::Isolated, _) => rest.policy = Some(GroupPolicy::None),
            (_, None) => {}
        }
        rest.drop_invalid_parts(self);
        rest.is_valid().then_some(rest)
    }

    /// The query with one unit instead of several.
    fn with_one_unit(&self, demand: &QueryDemand) -> Option<Self> {
        let QueryDemand::Resource(suffix, class, 2..) = demand else {
            return None;
        };
        let mut rest = self.clone();
        let amount = rest.groups.get_mut(suffix)?.resources.get_mut(class)?;
        *amount = 1;
        Some(rest)
    }

    /// Removes groups without resources, unless they restrict where other groups are.
    fn drop_invalid_parts(&mut self, before: &Self) {
        let lost: BTreeSet<Option<GroupSuffix>> = before
            .groups
            .iter()
            .filter(|(suffix, was)| {
                let left = self.groups.get(suffix);
                !was.is_resourceless() && left.is_some_and(CandidatesQueryGroup::is_resourceless)
            })
            .map(|(suffix, _)| suffix.clone())
            .collect();
        self.groups.retain(|suffix, _| !lost.contains(suffix));
        loop {
            let count = self.groups.len();
            let left: BTreeSet<&str> = self
                .groups
                .keys()
                .flatten()
                .map(GroupSuffix::as_str)
                .collect();
            for suffixes in &mut self.same_subtrees {
                suffixes.retain(|suffix| left.contains(suffix.as_str()));
            }
            self.same_subtrees.retain(|suffixes| suffixes.len() > 1);
            let tied: BTreeSet<&str> = self
                .same_subtrees
                .iter()
                .flatten()
                .map(String::as_str)
                .collect();
            self.groups.retain(|suffix, group| {
                let is_tied = suffix.as_ref().is_some_and(|it| tied.contains(it.as_str()));
                !group.is_resourceless() || is_tied
            });
            if self.groups.len() == count {
                return;
            }
        }
    }
}
