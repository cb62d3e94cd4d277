//! /v3/users: list and show users, their projects and (empty) groups. The users file is the only way to change users.

use axum::extract::State;
use axum::routing::post;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{Groups, Projects, UserDocument, Users};

use super::{LIST, kept, kept_enabled, not_found};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/users", list)
            .id("listUsers")
            .summary("Users")
            .query(&LIST)
            .responds("users"),
        refused("/v3/users"),
        IdentityOperation::get("/v3/users/{id}", show)
            .id("showUser")
            .summary("One user")
            .responds("user"),
        refused("/v3/users/{id}"),
        IdentityOperation::get("/v3/users/{id}/projects", projects)
            .id("listProjectsOfUser")
            .summary("List a user's projects")
            .responds("projects"),
        IdentityOperation::get("/v3/users/{id}/groups", groups)
            .id("listGroupsOfUser")
            .summary("Always empty, because groups are not supported")
            .responds("groups"),
        IdentityOperation::get("/v3/groups", all_groups)
            .id("listGroups")
            .summary("Always empty, because groups are not supported")
            .query(&["name"])
            .responds("groups"),
        refused("/v3/groups"),
    ]
}

/// Refuses requests to change users, projects, domains or roles. Only operators see the path of the file.
pub(crate) async fn refuse(State(api): State<IdentityApi>, call: ApiRequest) -> Fault {
    if !call.caller.has_role("admin") {
        return Fault::forbidden(
            "Users, projects, domains, roles and assignments are kept by the operator of this cloud: ask there for a change. This \
             API reads them.",
        );
    }
    Fault::forbidden(format!(
        "Users, projects, domains, roles and assignments are kept in the file {} on the identity service's host: change them \
         there. This API reads them.",
        api.identity.users_file().path().display()
    ))
}

/// Refuses the methods that would change something at the path.
pub(super) fn refused(path: &'static str) -> IdentityOperation {
    let methods = post(refuse).put(refuse).patch(refuse).delete(refuse);
    IdentityOperation::refused(path, methods)
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_users")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let kept = users.users().filter(|user| {
        kept(
            &call,
            &[("name", &user.name), ("domain_id", &user.domain_id)],
        ) && kept_enabled(&call, user.enabled)
    });
    ApiResponse::ok(&Users {
        users: kept.map(|user| shown::user(user, &links)).collect(),
        links: links.list("/users"),
    })
}

/// Callers may read themselves; reading others needs a rule.
fn allow_own(call: &ApiRequest, rule: &str) -> Result<(), Fault> {
    let is_own = call.path("id")? == call.caller.user_id;
    allow(is_own || may_read_all(&call.caller), rule)
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow_own(&call, "identity:get_user")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    ApiResponse::ok(&UserDocument {
        user: shown::user(user, &links),
    })
}

async fn projects(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow_own(&call, "identity:list_user_projects")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    let kept = users.projects_of(&user.id).filter(|project| {
        kept(
            &call,
            &[("name", &project.name), ("domain_id", &project.domain_id)],
        ) && kept_enabled(&call, project.enabled)
    });
    ApiResponse::ok(&Projects {
        projects: kept.map(|it| shown::project(it, &links)).collect(),
        links: links.list(&format!("/users/{id}/projects")),
    })
}

/// A user's groups: always empty, because there are no groups.
async fn groups(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow_own(&call, "identity:list_groups_for_user")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    ApiResponse::ok(&Groups {
        groups: [],
        links: links.list(&format!("/users/{}/groups", user.id)),
    })
}

/// All groups: always empty.
async fn all_groups(
    State(api): State<IdentityApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_groups")?;
    ApiResponse::ok(&Groups {
        groups: [],
        links: Links::of(&api, &call).list("/groups"),
    })
}
