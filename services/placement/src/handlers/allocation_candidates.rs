//! /allocation_candidates: search for allocation candidates.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::placement as wire;

use super::modified;
use crate::candidates::ParsedCandidatesQuery;
use crate::openapi::query;
use crate::policies::admin_or_service;
use crate::router::{Placement, PlacementOperation};
use crate::searches::SearchQuery;
use crate::{microversions, schemas};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/allocation_candidates", list)
            .rule(admin_or_service("placement:allocation_candidates:list"))
            .since(microversions::CANDIDATES)
            .id("listCandidates")
            .summary("Lists the claims that are possible now.")
            .older("Before 1.12 the allocations of a request are a list; `mappings` from 1.34.")
            .query_parameters(query::candidates)
            .returns::<wire::AllocationCandidates>(200, "The current state."),
    ]
}

async fn list(State(placement): State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    call.check_accept()?;
    placement.allow(&call)?;
    // A large answer needs much memory, and only the services that place guests need one.
    if let Some(host) = call.caller.only_host() {
        return Err(Fault::forbidden(format!(
            "The account of host {host} may not search for allocation candidates."
        )));
    }
    schemas::check_candidates(&call.query, call.version)?;
    let query = ParsedCandidatesQuery::parse(&call.query, call.version)?;
    let most = placement.options.max_allocation_candidates;
    let question = SearchQuery {
        limit: query.limit.map_or(most, |limit| limit.min(most)),
        query,
        version: call.version,
    };
    let body = placement.searches.answer(question).await?;
    Ok(modified(ApiResponse::json(body), &call, None))
}
