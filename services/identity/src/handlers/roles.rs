//! /v3/roles: list and show roles.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{RoleDocument, Roles};

use super::{LIST, kept, not_found, users};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/roles", list)
            .id("listRoles")
            .summary("Roles")
            .query(&LIST)
            .responds("roles"),
        users::refused("/v3/roles"),
        IdentityOperation::get("/v3/roles/{id}", show)
            .id("showRole")
            .summary("One role")
            .responds("role"),
        users::refused("/v3/roles/{id}"),
    ]
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_roles")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    // There are no domain-specific roles.
    let of_a_domain = call.query.last("domain_id").is_some();
    let kept = users
        .roles()
        .filter(|role| !of_a_domain && kept(&call, &[("name", &role.name)]));
    ApiResponse::ok(&Roles {
        roles: kept.map(|it| shown::role(it, &links)).collect(),
        links: links.list("/roles"),
    })
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:get_role")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let role = users.roles().find(|role| role.id == id);
    let role = role.ok_or_else(|| not_found("role", id))?;
    ApiResponse::ok(&RoleDocument {
        role: shown::role(role, &links),
    })
}
