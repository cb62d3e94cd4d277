//! /v3/projects: list and show projects.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{ProjectDocument, Projects};

use super::{LIST, kept, kept_enabled, not_found, users};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/projects", list)
            .id("listProjects")
            .summary("Projects")
            .query(&LIST)
            .responds("projects"),
        users::refused("/v3/projects"),
        IdentityOperation::get("/v3/projects/{id}", show)
            .id("showProject")
            .summary("One project")
            .responds("project"),
        users::refused("/v3/projects/{id}"),
    ]
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_projects")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let kept = users.projects().filter(|project| {
        let own = [
            ("name", project.name.as_str()),
            ("domain_id", &project.domain_id),
            ("parent_id", &project.domain_id),
        ];
        kept(&call, &own) && kept_enabled(&call, project.enabled)
    });
    // No domain acts as a project in this service.
    let wants_domains = matches!(call.query.last("is_domain"), Some("true" | "True" | "1"));
    let kept = kept.filter(|_| !wants_domains);
    ApiResponse::ok(&Projects {
        projects: kept.map(|it| shown::project(it, &links)).collect(),
        links: links.list("/projects"),
    })
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let id = call.path("id")?;
    let is_own = call.caller.project_id() == Some(id);
    allow(is_own || may_read_all(&call.caller), "identity:get_project")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let project = users.project(id).ok_or_else(|| not_found("project", id))?;
    ApiResponse::ok(&ProjectDocument {
        project: shown::project(project, &links),
    })
}
