//! /v3/role_assignments: list which user has which role on which target.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::RoleAssignments;

use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};
use crate::users::{Assignment, AssignmentTarget, RoleEntry, Users};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/role_assignments", list)
            .id("listRoleAssignments")
            .summary("List role assignments")
            .query(&[
                "user.id",
                "role.id",
                "scope.project.id",
                "scope.domain.id",
                "scope.system",
                "effective",
                "include_names",
            ])
            .responds("role_assignments"),
    ]
}

/// Whether a boolean query key is set.
fn is_set(call: &ApiRequest, key: &str) -> bool {
    let value = call.query.last(key);
    value.is_some_and(|text| !matches!(text, "0" | "false" | "False"))
}

fn is_wanted(
    call: &ApiRequest,
    user_id: &str,
    target: &AssignmentTarget,
    role: &RoleEntry,
) -> bool {
    let wanted = |key: &str, value: Option<&str>| {
        let asked = call.query.last(key);
        asked.is_none_or(|asked| Some(asked) == value)
    };
    let (project, domain, is_system) = match target {
        AssignmentTarget::Project(id) => (Some(id.as_str()), None, false),
        AssignmentTarget::Domain(id) => (None, Some(id.as_str()), false),
        AssignmentTarget::System => (None, None, true),
    };
    wanted("user.id", Some(user_id))
        && wanted("role.id", Some(&role.id))
        && wanted("scope.project.id", project)
        && wanted("scope.domain.id", domain)
        && wanted("group.id", None)
        && (is_system || call.query.last("scope.system").is_none())
}

/// The role of an assignment, with implied roles if `effective` is set.
fn roles<'a>(users: &'a Users, one: &'a Assignment, effective: bool) -> Vec<&'a RoleEntry> {
    let name = std::iter::once(one.role.as_str());
    if effective {
        users.with_implied(name)
    } else {
        users.roles().filter(|role| role.name == one.role).collect()
    }
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let is_own = call.query.last("user.id") == Some(&call.caller.user_id);
    allow(
        is_own || may_read_all(&call.caller),
        "identity:list_role_assignments",
    )?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let effective = is_set(&call, "effective");
    let mut seen = BTreeSet::new();
    let mut shown = Vec::new();
    for one in users.assignments() {
        for role in roles(&users, one, effective) {
            // A user may have a role both directly and as an implied role.
            let is_new = seen.insert((&one.user_id, &one.target, &role.name));
            if is_new && is_wanted(&call, &one.user_id, &one.target, role) {
                let with_names = is_set(&call, "include_names");
                shown.extend(shown::assignment(&users, one, role, with_names, &links));
            }
        }
    }
    ApiResponse::ok(&RoleAssignments {
        role_assignments: shown,
        links: links.list("/role_assignments"),
    })
}
