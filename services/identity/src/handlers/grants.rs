//! /v3/projects/{id}/users/{user}/roles, and the same of domains and of the cloud itself: which roles a user was given there.
//! What a role implies was not given.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::identity::Roles;

use super::not_found;
use crate::policies::{allow, may_read_all};
use crate::router::Api;
use crate::shown::{self, Links};
use crate::users::{Role, Target, Users};

fn project(call: &Call) -> Result<Target, Fault> {
    Ok(Target::Project(call.path("id")?.to_owned()))
}

fn domain(call: &Call) -> Result<Target, Fault> {
    Ok(Target::Domain(call.path("id")?.to_owned()))
}

/// The roles that the user of the path was given there.
fn given<'a>(users: &'a Users, call: &Call, target: &Target) -> Result<Vec<&'a Role>, Fault> {
    match target {
        Target::Project(id) if users.project(id).is_none() => return Err(not_found("project", id)),
        Target::Domain(id) if users.domain(id).is_none() => return Err(not_found("domain", id)),
        _ => {}
    }
    let id = call.path("user")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    let is_given = |role: &&Role| {
        let mut all = users.assignments().iter();
        all.any(|one| one.user_id == user.id && one.target == *target && one.role == role.name)
    };
    Ok(users.roles().filter(is_given).collect())
}

fn list(api: &Api, call: &Call, target: &Target) -> Result<Answer, Fault> {
    allow(may_read_all(&call.caller), "identity:list_grants")?;
    let (users, links) = (api.identity.users(), Links::of(api, call));
    let roles = given(&users, call, target)?;
    let user = call.path("user")?;
    let place = match target {
        Target::Project(id) => format!("/projects/{id}"),
        Target::Domain(id) => format!("/domains/{id}"),
        Target::System => "/system".to_owned(),
    };
    Answer::ok(&Roles {
        roles: roles
            .into_iter()
            .map(|it| shown::role(it, &links))
            .collect(),
        links: links.list(&format!("{place}/users/{user}/roles")),
    })
}

fn check(api: &Api, call: &Call, target: &Target) -> Result<Answer, Fault> {
    allow(may_read_all(&call.caller), "identity:check_grant")?;
    let users = api.identity.users();
    let id = call.path("role")?;
    let role = users.roles().find(|role| role.id == id);
    let role = role.ok_or_else(|| not_found("role", id))?;
    match given(&users, call, target)?.contains(&role) {
        true => Ok(Answer::no_content()),
        false => Err(not_found("role assignment with role", id)),
    }
}

pub(crate) async fn of_project(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    list(&api, &call, &project(&call)?)
}

pub(crate) async fn of_domain(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    list(&api, &call, &domain(&call)?)
}

pub(crate) async fn of_system(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    list(&api, &call, &Target::System)
}

pub(crate) async fn in_project(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    check(&api, &call, &project(&call)?)
}

pub(crate) async fn in_domain(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    check(&api, &call, &domain(&call)?)
}

pub(crate) async fn in_system(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    check(&api, &call, &Target::System)
}
