//! A file per noun: what each method of each path does, and what is told when it cannot.

pub(crate) mod auth_scopes;
pub(crate) mod auth_tokens;
pub(crate) mod catalog;
pub(crate) mod domains;
pub(crate) mod grants;
pub(crate) mod projects;
pub(crate) mod role_assignments;
pub(crate) mod roles;
pub(crate) mod users;
pub(crate) mod versions;

use berth_http::{Call, Fault};

/// The filters that lists have in common: each is a key of the query with the value that is kept.
pub(crate) fn kept(call: &Call, filters: &[(&str, &str)]) -> bool {
    let wanted = |key: &str| call.query.last(key);
    filters
        .iter()
        .all(|(key, value)| wanted(key).is_none_or(|wanted| wanted == *value))
}

/// `enabled` of the query, which is true unless it says no; as Keystone reads it.
pub(crate) fn kept_enabled(call: &Call, enabled: bool) -> bool {
    let no = |text: &str| {
        matches!(
            text.to_ascii_lowercase().as_str(),
            "0" | "false" | "no" | "off"
        )
    };
    let wanted = call.query.last("enabled");
    wanted.is_none_or(|text| enabled != no(text))
}

/// The 404 of a thing that is not there.
pub(crate) fn not_found(what: &str, id: &str) -> Fault {
    let shown: String = id.chars().take(80).collect();
    Fault::not_found(format!("Could not find {what}: {shown}."))
}
