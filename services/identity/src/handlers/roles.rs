//! /v3/roles: which roles there are.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::identity::{RoleDocument, Roles};

use super::{kept, not_found};
use crate::policies::{allow, may_read_all};
use crate::router::Api;
use crate::shown::{self, Links};

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    allow(may_read_all(&call.caller), "identity:list_roles")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    // Roles of one domain alone there are none.
    let of_a_domain = call.query.last("domain_id").is_some();
    let kept = users
        .roles()
        .filter(|role| !of_a_domain && kept(&call, &[("name", &role.name)]));
    Answer::ok(&Roles {
        roles: kept.map(|it| shown::role(it, &links)).collect(),
        links: links.list("/roles"),
    })
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    allow(may_read_all(&call.caller), "identity:get_role")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let role = users.roles().find(|role| role.id == id);
    let role = role.ok_or_else(|| not_found("role", id))?;
    Answer::ok(&RoleDocument {
        role: shown::role(role, &links),
    })
}
