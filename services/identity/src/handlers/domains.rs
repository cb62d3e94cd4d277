//! /v3/domains: list and show domains.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{DomainDocument, Domains};

use super::{LIST, kept, kept_enabled, not_found, users};
use crate::policies::{allow, may_read_all};
use crate::router::{IdentityApi, IdentityOperation};
use crate::shown::{self, Links};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/v3/domains", list)
            .id("listDomains")
            .summary("Domains")
            .query(&LIST)
            .responds("domains"),
        users::refused("/v3/domains"),
        IdentityOperation::get("/v3/domains/{id}", show)
            .id("showDomain")
            .summary("One domain")
            .responds("domain"),
        users::refused("/v3/domains/{id}"),
    ]
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    allow(may_read_all(&call.caller), "identity:list_domains")?;
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let kept = users.domains().filter(|domain| {
        kept(&call, &[("name", &domain.name)]) && kept_enabled(&call, domain.enabled)
    });
    ApiResponse::ok(&Domains {
        domains: kept.map(|it| shown::domain(it, &links)).collect(),
        links: links.list("/domains"),
    })
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let (users, links) = (api.identity.users(), Links::of(&api, &call));
    let id = call.path("id")?;
    let project = call.caller.project_id().and_then(|id| users.project(id));
    let user = users.user(&call.caller.user_id);
    let is_own = project.is_some_and(|project| project.domain_id == id)
        || user.is_some_and(|user| user.domain_id == id);
    allow(is_own || may_read_all(&call.caller), "identity:get_domain")?;
    let domain = users.domain(id).ok_or_else(|| not_found("domain", id))?;
    ApiResponse::ok(&DomainDocument {
        domain: shown::domain(domain, &links),
    })
}
