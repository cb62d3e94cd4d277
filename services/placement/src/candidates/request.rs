//! The query string of GET /allocation_candidates as a value.

use std::collections::{BTreeMap, BTreeSet};

use berth_http::schema::{is_uuid_like, normal_uuid};
use berth_http::{Fault, Microversion, QueryString};

use super::options::{NestedProviders, SearchGroupPolicy};
use crate::filters::{self, TraitSets};
use crate::handlers::codes;
use crate::microversions as since;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct QueryGroup {
    /// Amounts by class, in the order of the query.
    pub(crate) resources: Vec<(String, i64)>,
    /// Of each set, at least one trait.
    pub(crate) required: Vec<BTreeSet<String>>,
    /// None of these traits.
    pub(crate) forbidden: BTreeSet<String>,
    /// Of each set, a member of at least one aggregate.
    pub(crate) member_of: Vec<BTreeSet<String>>,
    /// A member of none of these aggregates.
    pub(crate) forbidden_aggregates: BTreeSet<String>,
    /// In the tree of this provider.
    pub(crate) in_tree: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ParsedCandidatesQuery {
    /// By suffix. The unsuffixed group may be served by several providers, each other group by exactly one.
    pub(crate) groups: BTreeMap<String, QueryGroup>,
    pub(crate) policy: SearchGroupPolicy,
    /// For each set of groups, one of their providers must be an ancestor of the others.
    pub(crate) same_subtrees: Vec<BTreeSet<String>>,
    /// Traits of the tree's root.
    pub(crate) root_required: BTreeSet<String>,
    /// Traits that the tree's root has not.
    pub(crate) root_forbidden: BTreeSet<String>,
    /// The maximum number of candidates.
    pub(crate) limit: Option<usize>,
    pub(crate) nesting: NestedProviders,
}

impl ParsedCandidatesQuery {
    /// Parses the query string, after the schema accepted its keys.
    pub(crate) fn parse(query: &QueryString, version: Microversion) -> Result<Self, Fault> {
        let (root_required, root_forbidden) = root_required(query)?;
        let same_subtrees = same_subtrees(query)?;
        let groups = groups(query, version)?;
        check_groups(&groups, &same_subtrees, version)?;
        let policy = query.all("group_policy").next();
        if policy.is_none() && groups.keys().filter(|suffix| !suffix.is_empty()).count() > 1 {
            return Err(Fault::bad_request(
                "The \"group_policy\" parameter is required when specifying more than one \
                 \"resources{N}\" parameter.",
            ));
        }
        // More digits than a number takes is as good as no limit.
        let limit = query.all("limit").next();
        let limit = limit.map(|digits| digits.parse().unwrap_or(usize::MAX));
        Ok(Self {
            groups,
            policy: match policy {
                Some("isolate") => SearchGroupPolicy::Isolate,
                _ => SearchGroupPolicy::None,
            },
            same_subtrees,
            root_required,
            root_forbidden,
            limit,
            nesting: if version.has(since::NESTED_CANDIDATES) {
                NestedProviders::Known
            } else {
                NestedProviders::Unknown
            },
        })
    }
}

type TraitConditions = (BTreeSet<String>, BTreeSet<String>);

fn root_required(query: &QueryString) -> Result<TraitConditions, Fault> {
    let mut values = query.all("root_required");
    let Some(value) = values.next() else {
        return Ok(TraitConditions::default());
    };
    if values.next().is_some() {
        return Err(Fault::bad_request(
            "Query parameter 'root_required' may be specified only once.",
        )
        .with_code(codes::DUPLICATE_KEY));
    }
    let mut traits = TraitSets::default();
    // `in:` is not supported here in any microversion.
    traits.add(value, since::FORBIDDEN_TRAITS)?;
    let required: BTreeSet<String> = traits.required.into_iter().flatten().collect();
    let both: Vec<&str> = required
        .intersection(&traits.forbidden)
        .map(String::as_str)
        .collect();
    if !both.is_empty() {
        return Err(Fault::bad_request(format!(
            "Conflicting required and forbidden traits found in root_required: {}",
            both.join(", ")
        ))
        .with_code(codes::BAD_VALUE));
    }
    Ok((required, traits.forbidden))
}

fn same_subtrees(query: &QueryString) -> Result<Vec<BTreeSet<String>>, Fault> {
    query
        .all("same_subtree")
        .map(|value| {
            let suffixes: BTreeSet<String> = value
                .split(',')
                .map(|part| part.trim().to_owned())
                .collect();
            if suffixes.contains("") {
                return Err(Fault::bad_request(
                    "Empty string (unsuffixed group) can not be specified in `same_subtree` ",
                )
                .with_code(codes::BAD_VALUE));
            }
            Ok(suffixes)
        })
        .collect()
}

fn groups(
    query: &QueryString,
    version: Microversion,
) -> Result<BTreeMap<String, QueryGroup>, Fault> {
    let mut groups: BTreeMap<String, QueryGroup> = BTreeMap::new();
    let mut read = BTreeSet::new();
    for (key, value) in query.pairs() {
        let Some((part, suffix)) = group_key(key, version) else {
            continue;
        };
        // All values of these keys are parsed at their first occurrence: parsing them again at each would take seconds
        // for a key that occurs thousands of times.
        if matches!(part, QueryKeyPart::Required | QueryKeyPart::MemberOf) && !read.insert(key) {
            continue;
        }
        let group = groups.entry(suffix.to_owned()).or_default();
        match part {
            QueryKeyPart::Resources => group.resources = filters::resources(value)?,
            QueryKeyPart::Required => {
                let traits = TraitSets::of_query(query, key, version)?;
                (group.required, group.forbidden) = (traits.required, traits.forbidden);
            }
            QueryKeyPart::MemberOf => {
                (group.member_of, group.forbidden_aggregates) =
                    filters::member_of(query, suffix, version)?;
            }
            QueryKeyPart::InTree => group.in_tree = Some(in_tree(value)?),
        }
    }
    Ok(groups)
}

fn in_tree(value: &str) -> Result<String, Fault> {
    normal_uuid(value.trim())
        .filter(|_| is_uuid_like(value.trim()))
        .ok_or_else(|| {
            Fault::bad_request(format!(
                "Invalid query string parameters: Expected 'in_tree' parameter to be a format of \
                 uuid. Got: {value}"
            ))
        })
}

/// The part of a group that a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryKeyPart {
    Resources,
    Required,
    MemberOf,
    InTree,
}

const PARTS: [(&str, QueryKeyPart, Microversion); 4] = [
    ("resources", QueryKeyPart::Resources, since::CANDIDATES),
    (
        "required",
        QueryKeyPart::Required,
        since::CANDIDATES_REQUIRED,
    ),
    (
        "member_of",
        QueryKeyPart::MemberOf,
        since::CANDIDATES_MEMBER_OF,
    ),
    ("in_tree", QueryKeyPart::InTree, since::CANDIDATES_IN_TREE),
];

/// A key as a part of a group with its suffix, if the version knows such a key.
pub(crate) fn group_key(key: &str, version: Microversion) -> Option<(QueryKeyPart, &str)> {
    let parts = PARTS.iter().filter(|(_, _, since)| version.has(*since));
    parts
        .filter_map(|(name, part, _)| Some((*part, key.strip_prefix(name)?)))
        .find(|(_, suffix)| suffix.is_empty() || is_suffix(suffix, version))
}

fn is_suffix(text: &str, version: Microversion) -> bool {
    if version.has(since::TEXT_SUFFIXES) {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=64).contains(&text.len()) && text.bytes().all(allowed)
    } else {
        version.has(since::GRANULAR_GROUPS)
            && !text.starts_with('0')
            && text.bytes().all(|byte| byte.is_ascii_digit())
    }
}

fn check_groups(
    groups: &BTreeMap<String, QueryGroup>,
    same_subtrees: &[BTreeSet<String>],
    version: Microversion,
) -> Result<(), Fault> {
    if version.has(since::SAME_SUBTREE) {
        check_subtrees(groups, same_subtrees)?;
    } else {
        check_orphans(groups)?;
    }
    if !version.has(since::FORBIDDEN_TRAITS) {
        return Ok(());
    }
    let mut conflicts: Vec<String> = Vec::new();
    for (suffix, group) in groups {
        for any_of in &group.required {
            if any_of.is_subset(&group.forbidden) {
                let names: Vec<&str> = any_of.iter().map(String::as_str).collect();
                conflicts.push(format!("required{suffix}: ({})", names.join(", ")));
            }
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    conflicts.sort();
    Err(Fault::bad_request(format!(
        "Conflicting required and forbidden traits found in the following traits keys: {}",
        conflicts.join(", ")
    )))
}

/// From 1.36: a group without resources is allowed if it names a subtree.
fn check_subtrees(
    groups: &BTreeMap<String, QueryGroup>,
    same_subtrees: &[BTreeSet<String>],
) -> Result<(), Fault> {
    let named: BTreeSet<&String> = same_subtrees.iter().flatten().collect();
    let without: Vec<&String> = groups
        .iter()
        .filter(|(_, group)| group.resources.is_empty())
        .map(|(suffix, _)| suffix)
        .collect();
    if without.len() == groups.len() {
        return Err(Fault::bad_request(
            "There must be at least one resources or resources[$S] parameter.",
        )
        .with_code(codes::MISSING_VALUE));
    }
    let loose: Vec<&String> = without
        .into_iter()
        .filter(|suffix| !named.contains(suffix))
        .collect();
    if !loose.is_empty() {
        return Err(Fault::bad_request(format!(
            "Resourceless suffixed group request should be specified in `same_subtree` query \
             param: bad group(s) - {}.",
            quoted(&loose)
        ))
        .with_code(codes::BAD_VALUE));
    }
    let unreal: Vec<&String> = named
        .into_iter()
        .filter(|suffix| !groups.contains_key(*suffix))
        .collect();
    if !unreal.is_empty() {
        return Err(Fault::bad_request(format!(
            "Real suffixes should be specified in `same_subtree`: {} not found in {}.",
            quoted(&unreal),
            quoted(&groups.keys().collect::<Vec<_>>())
        ))
        .with_code(codes::BAD_VALUE));
    }
    Ok(())
}

/// Before 1.36: every group has resources.
fn check_orphans(groups: &BTreeMap<String, QueryGroup>) -> Result<(), Fault> {
    let orphans = |name: &str, has: fn(&QueryGroup) -> bool| {
        let keys: Vec<String> = groups
            .iter()
            .filter(|(_, group)| group.resources.is_empty() && has(group))
            .map(|(suffix, _)| format!("{name}{suffix}"))
            .collect();
        keys.join(", ")
    };
    let keys = orphans("required", |group| !group.required.is_empty());
    if !keys.is_empty() {
        return Err(Fault::bad_request(format!(
            "All traits parameters must be associated with resources.  Found the following \
             orphaned traits keys: {keys}"
        )));
    }
    let keys = orphans("member_of", |group| {
        !(group.member_of.is_empty() && group.forbidden_aggregates.is_empty())
    });
    if !keys.is_empty() {
        return Err(Fault::bad_request(format!(
            "All member_of parameters must be associated with resources. Found the following \
             orphaned member_of keys: {keys}"
        )));
    }
    if groups.values().any(|group| group.resources.is_empty()) {
        return Err(Fault::bad_request(
            "All request groups must specify resources.",
        ));
    }
    if groups.is_empty() {
        return Err(Fault::bad_request(
            "At least one request group (`resources` or `resources{$S}`) is required.",
        ));
    }
    Ok(())
}

/// `['a', 'b']`.
fn quoted(suffixes: &[&String]) -> String {
    let quoted: Vec<String> = suffixes
        .iter()
        .map(|suffix| format!("'{suffix}'"))
        .collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::microversions::RANGE;

    /// Parsing it again at each occurrence would take minutes.
    #[test]
    fn a_key_that_comes_twenty_thousand_times_is_read_once() {
        const TIMES: usize = 20_000;
        let mut text = "resources=VCPU:1".to_owned();
        for _ in 0..TIMES {
            text.push_str(
                "&required=in:CUSTOM_A,CUSTOM_B&member_of=a0000000-0000-4000-8000-000000000001",
            );
        }
        let query = QueryString::parse(&text).expect("a query string");
        let query = ParsedCandidatesQuery::parse(&query, RANGE.max).expect("a query");
        let group = query.groups.get("").expect("the group without a suffix");
        assert_eq!(
            (group.required.len(), group.member_of.len()),
            (TIMES, TIMES)
        );
    }
}
