//! /allocation_candidates

use axum::extract::State;
use berth_http::{Answer, Call, Fault};

use super::{modified, require};
use crate::candidates::CandidatesQuery;
use crate::router::Placement;
use crate::searches::Question;
use crate::{microversions, policies, schemas};

pub(crate) async fn list(State(placement): State<Placement>, call: Call) -> Result<Answer, Fault> {
    require(&call, microversions::CANDIDATES)?;
    call.check_accept()?;
    placement.allow(&call, policies::CANDIDATES_LIST)?;
    schemas::check_candidates(&call.query, call.version)?;
    let query = CandidatesQuery::parse(&call.query, call.version)?;
    let most = placement.options.max_allocation_candidates;
    let question = Question {
        limit: query.limit.map_or(most, |limit| limit.min(most)),
        query,
        version: call.version,
    };
    let body = placement.searches.answer(question).await?;
    Ok(modified(Answer::json(body), &call, None))
}
