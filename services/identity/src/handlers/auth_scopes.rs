//! /v3/auth/…: for what the caller may have tokens, and where the services are.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::identity::{CatalogDocument, Domains, Projects, SelfLink, SystemAll, SystemScopes};

use crate::router::Api;
use crate::shown::{self, Links};
use crate::users::Target;

pub(crate) async fn catalog(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    if call.caller.project_id().is_none() {
        return Err(Fault::forbidden(
            "A project-scoped token is required to produce a service catalog.",
        ));
    }
    Answer::ok(&CatalogDocument {
        catalog: shown::entries(api.identity.catalog()),
        links: SelfLink {
            own: api.url(&call, "/auth/catalog"),
        },
    })
}

pub(crate) async fn projects(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let projects = users
        .projects_of(&call.caller.user_id)
        .filter(|project| users.is_usable(&Target::Project(project.id.clone())));
    Answer::ok(&Projects {
        projects: projects.map(|it| shown::project(it, &links)).collect(),
        links: links.list("/auth/projects"),
    })
}

pub(crate) async fn domains(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let ids: BTreeSet<&str> = users
        .targets_of(&call.caller.user_id)
        .filter_map(|target| match target {
            Target::Domain(id) => Some(id.as_str()),
            Target::Project(_) | Target::System => None,
        })
        .collect();
    let domains = ids.into_iter().filter_map(|id| users.domain(id));
    let domains = domains.filter(|domain| domain.enabled);
    Answer::ok(&Domains {
        domains: domains.map(|it| shown::domain(it, &links)).collect(),
        links: links.list("/auth/domains"),
    })
}

pub(crate) async fn system(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let users = api.identity.users();
    let is_there = users
        .targets_of(&call.caller.user_id)
        .any(|target| *target == Target::System);
    Answer::ok(&SystemScopes {
        system: is_there
            .then_some(SystemAll { all: true })
            .into_iter()
            .collect(),
        links: SelfLink {
            own: api.url(&call, "/auth/system"),
        },
    })
}
