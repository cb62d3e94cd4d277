//! /v3/users: who there is. Nobody is made or changed here: that is what the file is for.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::identity::{Groups, Projects, UserDocument, Users};

use super::{kept, kept_enabled, not_found};
use crate::policies::{allow, may_read_all};
use crate::router::Api;
use crate::shown::{self, Links};

/// Answers whoever would change what stands in the file. Where that is on the host is for operators alone to know.
pub(crate) async fn refuse(State(api): State<Api>, call: Call) -> Fault {
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

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    allow(may_read_all(&call.caller), "identity:list_users")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let kept = users.users().filter(|user| {
        kept(
            &call,
            &[("name", &user.name), ("domain_id", &user.domain_id)],
        ) && kept_enabled(&call, user.enabled)
    });
    Answer::ok(&Users {
        users: kept.map(|user| shown::user(user, &links)).collect(),
        links: links.list("/users"),
    })
}

/// The caller itself may look at itself.
fn allow_own(call: &Call, rule: &str) -> Result<(), Fault> {
    let is_own = call.path("id")? == call.caller.user_id;
    allow(is_own || may_read_all(&call.caller), rule)
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    allow_own(&call, "identity:get_user")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    Answer::ok(&UserDocument {
        user: shown::user(user, &links),
    })
}

pub(crate) async fn projects(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
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
    Answer::ok(&Projects {
        projects: kept.map(|it| shown::project(it, &links)).collect(),
        links: links.list(&format!("/users/{id}/projects")),
    })
}

/// There are no groups.
pub(crate) async fn groups(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    allow_own(&call, "identity:list_groups_for_user")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let user = users.user(id).ok_or_else(|| not_found("user", id))?;
    Answer::ok(&Groups {
        groups: [],
        links: links.list(&format!("/users/{}/groups", user.id)),
    })
}

/// The same for everybody.
pub(crate) async fn all_groups(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    allow(may_read_all(&call.caller), "identity:list_groups")?;
    Answer::ok(&Groups {
        groups: [],
        links: Links::of(&api, &call).list("/groups"),
    })
}
