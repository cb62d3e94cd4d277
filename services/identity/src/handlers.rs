//! The handlers of the API, one file per resource, and what they share.

mod auth_scopes;
mod auth_tokens;
mod catalog;
mod domains;
mod grants;
mod limits;
mod projects;
mod role_assignments;
mod roles;
pub(crate) mod users;
mod versions;

use berth_http::{ApiRequest, Fault, OperationSet};

use crate::router::IdentityApi;

/// The query keys of most lists.
const LIST: [&str; 5] = ["name", "enabled", "domain_id", "limit", "marker"];

/// All operations of the API.
pub(crate) fn operations() -> OperationSet<IdentityApi> {
    let resources = [
        versions::operations(),
        auth_tokens::operations(),
        auth_scopes::operations(),
        users::operations(),
        projects::operations(),
        domains::operations(),
        roles::operations(),
        role_assignments::operations(),
        grants::operations(),
        catalog::operations(),
        limits::operations(),
    ];
    resources.into_iter().flatten().collect()
}

/// Applies the query filters of a list. Each filter is a query key with the value of the entry.
pub(crate) fn kept(call: &ApiRequest, filters: &[(&str, &str)]) -> bool {
    let wanted = |key: &str| call.query.last(key);
    filters
        .iter()
        .all(|(key, value)| wanted(key).is_none_or(|wanted| wanted == *value))
}

/// Applies the query filter `enabled`. Like Keystone, any value except a negative one counts as true.
pub(crate) fn kept_enabled(call: &ApiRequest, enabled: bool) -> bool {
    let no = |text: &str| {
        matches!(
            text.to_ascii_lowercase().as_str(),
            "0" | "false" | "no" | "off"
        )
    };
    let wanted = call.query.last("enabled");
    wanted.is_none_or(|text| enabled != no(text))
}

/// The 404 of an object that does not exist.
pub(crate) fn not_found(what: &str, id: &str) -> Fault {
    let shown: String = id.chars().take(80).collect();
    Fault::not_found(format!("Could not find {what}: {shown}."))
}
