//! /v3/projects/{id}/users/{user}/roles, and the same for domains and the system: the roles assigned to a user. Implied
//! roles are not included.

use axum::extract::State;
use axum::routing::put;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::Roles;

use super::{not_found, users};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};
use crate::users::{AssignmentTarget, RoleEntry, Users};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/projects/{id}/users/{user}/roles", of_project)
            .id("listRolesInProject")
            .summary("List a user's roles in a project")
            .responds("roles"),
        IdentityOperation::get("/v3/projects/{id}/users/{user}/roles/{role}", in_project)
            .id("checkRoleInProject")
            .summary("Check a user's role in a project")
            .statuses(&[204]),
        IdentityOperation::refused(
            "/v3/projects/{id}/users/{user}/roles/{role}",
            put(users::refuse).delete(users::refuse),
        ),
        IdentityOperation::get("/v3/domains/{id}/users/{user}/roles", of_domain)
            .id("listRolesInDomain")
            .summary("List a user's roles in a domain")
            .responds("roles"),
        IdentityOperation::get("/v3/domains/{id}/users/{user}/roles/{role}", in_domain)
            .id("checkRoleInDomain")
            .summary("Check a user's role in a domain")
            .statuses(&[204]),
        IdentityOperation::refused(
            "/v3/domains/{id}/users/{user}/roles/{role}",
            put(users::refuse).delete(users::refuse),
        ),
        IdentityOperation::get("/v3/system/users/{user}/roles", of_system)
            .id("listRolesInSystem")
            .summary("List a user's roles in the system")
            .responds("roles"),
        IdentityOperation::get("/v3/system/users/{user}/roles/{role}", in_system)
            .id("checkRoleInSystem")
            .summary("Check a user's role in the system")
            .statuses(&[204]),
        IdentityOperation::refused(
            "/v3/system/users/{user}/roles/{role}",
            put(users::refuse).delete(users::refuse),
        ),
    ]
}

fn project(call: &ApiRequest) -> Result<AssignmentTarget, Fault> {
    Ok(AssignmentTarget::Project(call.path("id")?.to_owned()))
}

fn domain(call: &ApiRequest) -> Result<AssignmentTarget, Fault> {
    Ok(AssignmentTarget::Domain(call.path("id")?.to_owned()))
}

/// The roles assigned to the user in the path, for this target.
fn given<'a>(
    users: &'a Users,
    call: &ApiRequest,
    target: &AssignmentTarget,
) -> Result<Vec<&'a RoleEntry>, Fault> {
    match target {
        AssignmentTarget::Project(id) if users.project(id).is_none() => {
            return Err(not_found("project", id));
        }
        AssignmentTarget::Domain(id) if users.domain(id).is_none() => {
            return Err(not_found("domain", id));
        }
        _ => {}
    }
    let id = call.path("user")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    let is_given = |role: &&RoleEntry| {
        let mut all = users.assignments().iter();
        all.any(|one| one.user_id == user.id && one.target == *target && one.role == role.name)
    };
    Ok(users.roles().filter(is_given).collect())
}

fn list(
    api: &IdentityApi,
    call: &ApiRequest,
    target: &AssignmentTarget,
) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_grants")?;
    let (users, links) = (api.identity.users(), Links::of(api, call));
    let roles = given(&users, call, target)?;
    let user = call.path("user")?;
    let place = match target {
        AssignmentTarget::Project(id) => format!("/projects/{id}"),
        AssignmentTarget::Domain(id) => format!("/domains/{id}"),
        AssignmentTarget::System => "/system".to_owned(),
    };
    ApiResponse::ok(&Roles {
        roles: roles
            .into_iter()
            .map(|it| shown::role(it, &links))
            .collect(),
        links: links.list(&format!("{place}/users/{user}/roles")),
    })
}

fn check(
    api: &IdentityApi,
    call: &ApiRequest,
    target: &AssignmentTarget,
) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:check_grant")?;
    let users = api.identity.users();
    let id = call.path("role")?;
    let role = users.roles().find(|role| role.id == id);
    let role = role.ok_or_else(|| not_found("role", id))?;
    match given(&users, call, target)?.contains(&role) {
        true => Ok(ApiResponse::no_content()),
        false => Err(not_found("role assignment with role", id)),
    }
}

async fn of_project(
    State(api): State<IdentityApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    list(&api, &call, &project(&call)?)
}

async fn of_domain(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    list(&api, &call, &domain(&call)?)
}

async fn of_system(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    list(&api, &call, &AssignmentTarget::System)
}

async fn in_project(
    State(api): State<IdentityApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    check(&api, &call, &project(&call)?)
}

async fn in_domain(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    check(&api, &call, &domain(&call)?)
}

async fn in_system(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    check(&api, &call, &AssignmentTarget::System)
}
