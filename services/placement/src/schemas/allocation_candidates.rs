//! The query string of GET /allocation_candidates.

use berth_http::schema::{BodySchema, ObjectSchema, TextPattern, TextSchema};
use berth_http::{Fault, Microversion, QueryString};

use super::ANY_TEXT;
use crate::candidates::request::group_key;
use crate::microversions as since;

const LIMIT: BodySchema = BodySchema::Text(TextSchema {
    min: 1,
    pattern: Some(TextPattern {
        shown: "^[1-9][0-9]*$",
        matches: |text| {
            !text.starts_with('0') && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
        },
    }),
    ..TextSchema::ANY
});

/// Before groups had suffixes: fixed keys.
fn ungrouped(version: Microversion) -> BodySchema {
    const ALL: &[(&str, BodySchema)] = &[
        ("resources", ANY_TEXT),
        ("limit", LIMIT),
        ("required", ANY_TEXT),
        ("member_of", ANY_TEXT),
    ];
    macro_rules! first {
        ($count:literal) => {{
            const FIRST: BodySchema = BodySchema::Object(&ObjectSchema {
                properties: ALL.split_at($count).0,
                required: &["resources"],
            });
            FIRST
        }};
    }
    if version.has(since::CANDIDATES_MEMBER_OF) {
        first!(4)
    } else if version.has(since::CANDIDATES_REQUIRED) {
        first!(3)
    } else if version.has(since::CANDIDATES_LIMIT) {
        first!(2)
    } else {
        first!(1)
    }
}

const FIXED: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[
        ("limit", LIMIT),
        ("group_policy", ANY_TEXT),
        ("root_required", ANY_TEXT),
        ("same_subtree", ANY_TEXT),
    ],
    required: &[],
});

const POLICIES: [&str; 2] = ["none", "isolate"];

/// Refuses keys that the version does not know, and values that no version knows.
pub(crate) fn check_candidates(query: &QueryString, version: Microversion) -> Result<(), Fault> {
    let refuse = |text: String| {
        Err(Fault::bad_request(format!(
            "Invalid query string parameters: {text}"
        )))
    };
    let mut object = query.to_json();
    if !version.has(since::GRANULAR_GROUPS) {
        return match ungrouped(version).check(&object) {
            Ok(()) => Ok(()),
            Err(violation) => refuse(violation.to_string()),
        };
    }
    let known = |key: &str| match key {
        "limit" | "group_policy" => true,
        "root_required" => version.has(since::ROOT_REQUIRED),
        "same_subtree" => version.has(since::SAME_SUBTREE),
        _ => group_key(key, version).is_some(),
    };
    let mut unknown: Vec<String> = query
        .pairs()
        .filter(|(key, _)| !known(key))
        .map(|(key, _)| format!("'{key}'"))
        .collect();
    unknown.sort();
    unknown.dedup();
    if !unknown.is_empty() {
        return refuse(format!(
            "{} {} not match any of the regexes: {}\n\nFailed validating 'additionalProperties' \
             in schema",
            unknown.join(", "),
            if unknown.len() == 1 { "does" } else { "do" },
            patterns(version)
        ));
    }
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|key, _| group_key(key, version).is_none());
    }
    if let Err(violation) = FIXED.check(&object) {
        return refuse(violation.to_string());
    }
    match query.last("group_policy") {
        Some(policy) if !POLICIES.contains(&policy) => refuse(format!(
            "'{policy}' is not one of ['none', 'isolate']\n\nFailed validating 'enum' in \
             schema['properties']['group_policy']"
        )),
        _ => Ok(()),
    }
}

/// The keys of groups, as messages show them.
fn patterns(version: Microversion) -> String {
    let suffix = if version.has(since::TEXT_SUFFIXES) {
        "[a-zA-Z0-9_-]{1,64}"
    } else {
        "[1-9][0-9]*"
    };
    let mut names = vec!["member_of", "required", "resources"];
    if version.has(since::CANDIDATES_IN_TREE) {
        names.insert(0, "in_tree");
    }
    let shown = names.iter().map(|name| format!("'^{name}({suffix})?$'"));
    shown.collect::<Vec<_>>().join(", ")
}
