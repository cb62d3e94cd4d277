//! /allocation_candidates

mod document;

use std::sync::Arc;

use axum::extract::State;
use berth_http::request_id::random_uuid;
use berth_http::{Answer, Call, Fault, Microversion};

use super::{database, modified, require};
use crate::candidates::options::Wanted;
use crate::candidates::{CandidatesQuery, Found, Order, Snapshot, search};
use crate::router::{Options, Placement};
use crate::{microversions, policies, schemas};
use document::Document;

pub(crate) async fn list(State(placement): State<Placement>, call: Call) -> Result<Answer, Fault> {
    require(&call, microversions::CANDIDATES)?;
    call.check_accept()?;
    placement.allow(&call, policies::CANDIDATES_LIST)?;
    schemas::check_candidates(&call.query, call.version)?;
    let query = CandidatesQuery::parse(&call.query, call.version)?;
    let snapshot = placement.snapshots.current().await.map_err(database)?;
    let (options, version) = (Arc::clone(&placement.options), call.version);
    // A search may take a while, and so may its answer: other requests do not wait for it.
    let answer = tokio::task::spawn_blocking(move || answer(&snapshot, &query, &options, version))
        .await
        .map_err(|_| Fault::internal("The search did not end."))??;
    Ok(modified(answer, &call, None))
}

fn answer(
    snapshot: &Snapshot,
    query: &CandidatesQuery,
    options: &Options,
    version: Microversion,
) -> Result<Answer, Fault> {
    let wanted = query
        .resolve(snapshot)
        .map_err(|error| Fault::bad_request(error.to_string()))?;
    let most = options.max_allocation_candidates;
    let limit = query.limit.map_or(most, |limit| limit.min(most));
    let order = if options.randomize_allocation_candidates {
        let (seed, _) = random_uuid().as_u64_pair();
        Order::Random(seed)
    } else {
        Order::Fixed
    };
    let Some(wanted) = wanted else {
        let (wanted, found) = (Wanted::default(), Found::default());
        return written(&Document::new(snapshot.names(), &wanted, &found, version));
    };
    let found = search(snapshot, &wanted, limit, order);
    written(&Document::new(snapshot.names(), &wanted, &found, version))
}

fn written(document: &Document<'_>) -> Result<Answer, Fault> {
    Answer::written(document.write())
}
