//! /v3/auth/{catalog,projects,domains,system}: the scopes that the caller may have tokens for, and the service catalog.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{CatalogDocument, Domains, Projects, SelfLink, SystemAll, SystemScopes};

use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};
use crate::users::AssignmentTarget;

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/auth/catalog", catalog)
            .id("showCatalog")
            .summary("Show the service catalog")
            .responds("catalog"),
        IdentityOperation::get("/v3/auth/projects", projects)
            .id("listOwnProjects")
            .summary("List projects that the caller can scope to")
            .responds("projects"),
        IdentityOperation::get("/v3/auth/domains", domains)
            .id("listOwnDomains")
            .summary("List domains that the caller can scope to")
            .responds("domains"),
        IdentityOperation::get("/v3/auth/system", system)
            .id("listOwnSystems")
            .summary("Show whether the caller can scope to the system")
            .responds("system"),
    ]
}

async fn catalog(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    if call.caller.project_id().is_none() {
        return Err(Fault::forbidden(
            "A project-scoped token is required to produce a service catalog.",
        ));
    }
    ApiResponse::ok(&CatalogDocument {
        catalog: shown::entries(api.identity.catalog()),
        links: SelfLink {
            own: api.url(&call, "/auth/catalog"),
        },
    })
}

async fn projects(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let projects = users
        .projects_of(&call.caller.user_id)
        .filter(|project| users.is_usable(&AssignmentTarget::Project(project.id.clone())));
    ApiResponse::ok(&Projects {
        projects: projects.map(|it| shown::project(it, &links)).collect(),
        links: links.list("/auth/projects"),
    })
}

async fn domains(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let ids: BTreeSet<&str> = users
        .targets_of(&call.caller.user_id)
        .filter_map(|target| match target {
            AssignmentTarget::Domain(id) => Some(id.as_str()),
            AssignmentTarget::Project(_) | AssignmentTarget::System => None,
        })
        .collect();
    let domains = ids.into_iter().filter_map(|id| users.domain(id));
    let domains = domains.filter(|domain| domain.enabled);
    ApiResponse::ok(&Domains {
        domains: domains.map(|it| shown::domain(it, &links)).collect(),
        links: links.list("/auth/domains"),
    })
}

async fn system(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let users = api.identity.users();
    let is_there = users
        .targets_of(&call.caller.user_id)
        .any(|target| *target == AssignmentTarget::System);
    ApiResponse::ok(&SystemScopes {
        system: is_there
            .then_some(SystemAll { all: true })
            .into_iter()
            .collect(),
        links: SelfLink {
            own: api.url(&call, "/auth/system"),
        },
    })
}
