//! Builds `docs/api/identity.json`, the OpenAPI document of the Identity API. Requests that would change users,
//! projects, roles or the catalog are refused with 403 and are not in the document.
//!
//! Callers: the test of generated files, and the tests that send generated requests.

use berth_http::openapi::{AppliesTo, ErrorExample, OpenApiOperation, OpenApiService};
use serde_json::{Value, json};

const fn refusal(status: u16, comes: AppliesTo, says: &'static str) -> ErrorExample {
    ErrorExample {
        status,
        says,
        comes,
    }
}

const REFUSALS: [ErrorExample; 8] = [
    refusal(
        400,
        AppliesTo::Always,
        "The query string or the body is malformed; the message names the place.",
    ),
    refusal(
        401,
        AppliesTo::Always,
        "The token, the user, the project or the password is missing or invalid.",
    ),
    refusal(403, AppliesTo::Always, "A policy rule refuses the request."),
    refusal(404, AppliesTo::Always, "The object does not exist."),
    refusal(413, AppliesTo::WithBody, "The body exceeds the size limit."),
    refusal(
        415,
        AppliesTo::WithBody,
        "The body is not application/json.",
    ),
    refusal(
        429,
        AppliesTo::WithBody,
        "Too many wrong passwords in a short time.",
    ),
    refusal(
        503,
        AppliesTo::Always,
        "The database is unavailable; retry later.",
    ),
];

const fn read(
    path: &'static str,
    name: &'static str,
    does: &'static str,
    key: &'static str,
    query: &'static [&'static str],
) -> OpenApiOperation {
    OpenApiOperation {
        method: "GET",
        path,
        name,
        does,
        statuses: &[200],
        answers: Some(key),
        query,
    }
}

const LIST: &[&str] = &["name", "enabled", "domain_id", "limit", "marker"];

const OPERATIONS: &[OpenApiOperation] = &[
    OpenApiOperation {
        statuses: &[300],
        ..read("/", "listVersions", "List API versions", "versions", &[])
    },
    read("/v3", "showVersion", "Show the API version", "version", &[]),
    read(
        "/v3/",
        "showVersionRoot",
        "Show the API version",
        "version",
        &[],
    ),
    OpenApiOperation {
        method: "POST",
        statuses: &[201],
        ..read(
            "/v3/auth/tokens",
            "createToken",
            "Issue a token for a password or another token",
            "token",
            &["nocatalog"],
        )
    },
    read(
        "/v3/auth/tokens",
        "showToken",
        "Validate the token in X-Subject-Token",
        "token",
        &["nocatalog"],
    ),
    OpenApiOperation {
        method: "DELETE",
        statuses: &[204],
        answers: None,
        ..read(
            "/v3/auth/tokens",
            "revokeToken",
            "Revoke the token in X-Subject-Token",
            "",
            &[],
        )
    },
    read(
        "/v3/auth/catalog",
        "showCatalog",
        "Show the service catalog",
        "catalog",
        &[],
    ),
    read(
        "/v3/auth/projects",
        "listOwnProjects",
        "List projects that the caller can scope to",
        "projects",
        &[],
    ),
    read(
        "/v3/auth/domains",
        "listOwnDomains",
        "List domains that the caller can scope to",
        "domains",
        &[],
    ),
    read(
        "/v3/auth/system",
        "listOwnSystems",
        "Show whether the caller can scope to the system",
        "system",
        &[],
    ),
    read("/v3/users", "listUsers", "Users", "users", LIST),
    read("/v3/users/{id}", "showUser", "One user", "user", &[]),
    read(
        "/v3/users/{id}/projects",
        "listProjectsOfUser",
        "List a user's projects",
        "projects",
        &[],
    ),
    read(
        "/v3/users/{id}/groups",
        "listGroupsOfUser",
        "Always empty, because groups are not supported",
        "groups",
        &[],
    ),
    read("/v3/projects", "listProjects", "Projects", "projects", LIST),
    read(
        "/v3/projects/{id}",
        "showProject",
        "One project",
        "project",
        &[],
    ),
    read("/v3/domains", "listDomains", "Domains", "domains", LIST),
    read(
        "/v3/domains/{id}",
        "showDomain",
        "One domain",
        "domain",
        &[],
    ),
    read("/v3/roles", "listRoles", "Roles", "roles", LIST),
    read("/v3/roles/{id}", "showRole", "One role", "role", &[]),
    read(
        "/v3/groups",
        "listGroups",
        "Always empty, because groups are not supported",
        "groups",
        &["name"],
    ),
    read(
        "/v3/role_assignments",
        "listRoleAssignments",
        "List role assignments",
        "role_assignments",
        &[
            "user.id",
            "role.id",
            "scope.project.id",
            "scope.domain.id",
            "scope.system",
            "effective",
            "include_names",
        ],
    ),
    read(
        "/v3/projects/{id}/users/{user}/roles",
        "listRolesInProject",
        "List a user's roles in a project",
        "roles",
        &[],
    ),
    OpenApiOperation {
        statuses: &[204],
        answers: None,
        ..read(
            "/v3/projects/{id}/users/{user}/roles/{role}",
            "checkRoleInProject",
            "Check a user's role in a project",
            "",
            &[],
        )
    },
    read(
        "/v3/domains/{id}/users/{user}/roles",
        "listRolesInDomain",
        "List a user's roles in a domain",
        "roles",
        &[],
    ),
    OpenApiOperation {
        statuses: &[204],
        answers: None,
        ..read(
            "/v3/domains/{id}/users/{user}/roles/{role}",
            "checkRoleInDomain",
            "Check a user's role in a domain",
            "",
            &[],
        )
    },
    read(
        "/v3/system/users/{user}/roles",
        "listRolesInSystem",
        "List a user's roles in the system",
        "roles",
        &[],
    ),
    OpenApiOperation {
        statuses: &[204],
        answers: None,
        ..read(
            "/v3/system/users/{user}/roles/{role}",
            "checkRoleInSystem",
            "Check a user's role in the system",
            "",
            &[],
        )
    },
    read(
        "/v3/services",
        "listServices",
        "List the services of the catalog",
        "services",
        &["name", "type"],
    ),
    read(
        "/v3/services/{id}",
        "showService",
        "One service",
        "service",
        &[],
    ),
    read(
        "/v3/endpoints",
        "listEndpoints",
        "List the endpoints of the catalog",
        "endpoints",
        &["interface", "service_id", "region_id"],
    ),
    read(
        "/v3/endpoints/{id}",
        "showEndpoint",
        "One endpoint",
        "endpoint",
        &[],
    ),
    read("/v3/regions", "listRegions", "Regions", "regions", &[]),
    read(
        "/v3/regions/{id}",
        "showRegion",
        "One region",
        "region",
        &[],
    ),
];

/// The document `docs/api/identity.json`.
#[must_use]
pub fn openapi() -> String {
    let service = OpenApiService {
        title: "Identity",
        version: "v3.14".to_owned(),
        description: "The part of OpenStack's Identity API that Berth serves: users and projects from a file, tokens and the catalog.",
        served_by: "`berth up` and `berth controller`: /identity behind [api] listen, or [identity_service] listen",
        versions: None,
        refusals: &REFUSALS,
        fault: fault(),
        query: of_query,
        body,
    };
    service.document(OPERATIONS)
}

fn fault() -> Value {
    json!({
        "type": "object",
        "properties": {"error": {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}, "title": {"type": "string"}},
            "required": ["code", "message", "title"],
        }},
        "required": ["error"],
    })
}

fn of_query(name: &str) -> Value {
    match name {
        "enabled" | "effective" | "include_names" | "nocatalog" => {
            json!({"enum": ["true", "false", "1", "0", ""]})
        }
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 1_000}),
        _ => json!({"type": "string", "maxLength": 255}),
    }
}

/// The schema of a request body.
fn body(method: &str, path: &str) -> Option<Value> {
    if (method, path) != ("POST", "/v3/auth/tokens") {
        return None;
    }
    let text = json!({"type": "string", "maxLength": 255});
    let domain = json!({"type": "object", "properties": {"id": text, "name": text}});
    let user = json!({
        "type": "object",
        "properties": {"id": text, "name": text, "domain": domain, "password": text},
        "required": ["password"],
    });
    let identity = json!({
        "type": "object",
        "properties": {
            "methods": {"type": "array", "items": {"enum": ["password", "token"]}, "minItems": 1},
            "password": {"type": "object", "properties": {"user": user}, "required": ["user"]},
            "token": {"type": "object", "properties": {"id": text}, "required": ["id"]},
        },
        "required": ["methods"],
    });
    let scope = json!({"anyOf": [
        {"enum": ["unscoped"]},
        {"type": "object", "properties": {
            "project": {"type": "object", "properties": {"id": text, "name": text, "domain": domain}},
            "domain": domain,
            "system": {"type": "object", "properties": {"all": {"type": "boolean"}}},
        }},
    ]});
    let auth = json!({
        "type": "object",
        "properties": {"identity": identity, "scope": scope},
        "required": ["identity"],
    });
    Some(json!({"type": "object", "properties": {"auth": auth}, "required": ["auth"]}))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::router::routes;

    #[test]
    fn every_path_is_there_and_nothing_else() {
        let told: BTreeSet<&str> = OPERATIONS.iter().map(|it| it.path).collect();
        let served: BTreeSet<&str> = routes().iter().map(|(path, _)| *path).collect();
        assert_eq!(told, served);
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let names: BTreeSet<&str> = OPERATIONS.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
    }
}
