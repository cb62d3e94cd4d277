//! /allocation_candidates: search for allocation candidates.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};

use super::{modified, require};
use crate::candidates::ParsedCandidatesQuery;
use crate::router::Placement;
use crate::searches::SearchQuery;
use crate::{microversions, policies, schemas};

pub(crate) async fn list(
    State(placement): State<Placement>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    require(&call, microversions::CANDIDATES)?;
    call.check_accept()?;
    placement.allow(&call, policies::CANDIDATES_LIST)?;
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
