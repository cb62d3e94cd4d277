//! A request's route, by which a table counts requests.

use uuid::Uuid;

/// `METHOD /path/{uuid}?key`: names and UUIDs are left out.
pub(crate) fn route(method: &str, path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut template = String::new();
    let mut noun = "";
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        template.push('/');
        template.push_str(match noun {
            _ if Uuid::try_parse(segment).is_ok() => "{uuid}",
            "traits" | "resource_classes" => "{name}",
            _ => segment,
        });
        noun = segment;
    }
    if template.is_empty() {
        template.push('/');
    }
    let key = query.split('=').next().unwrap_or_default();
    if key.is_empty() {
        format!("{method} {template}")
    } else {
        format!("{method} {template}?{key}")
    }
}

#[test]
fn a_route_has_no_names() {
    for (path, expected) in [
        ("/", "GET /"),
        (
            "/resource_providers?in_tree=x",
            "GET /resource_providers?in_tree",
        ),
        (
            "/resource_providers/6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01/traits",
            "GET /resource_providers/{uuid}/traits",
        ),
        ("/traits/CUSTOM_X", "GET /traits/{name}"),
    ] {
        assert_eq!(route("GET", path), expected);
    }
}
