//! GET /v1/guests/{uuid}/console.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_agent_instances::console::end_of;
use berth_agent_instances::{GuestResources, Guests};
use berth_virt::VirtDriver;
use serde::Deserialize;

use crate::instances::{known, refused};
use crate::refusal::refusal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    lines: Option<u32>,
}

pub(super) async fn console<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    Path(uuid): Path<String>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let uuid = match known(&uuid) {
        Ok(uuid) => uuid,
        Err(refusal) => return *refusal,
    };
    let Ok(Query(Wanted { lines })) = wanted else {
        let message = "lines, a whole number, is all that can be asked for".to_owned();
        return refusal(StatusCode::BAD_REQUEST, "bad_query", message);
    };
    let record = match guests.show(uuid).await {
        Ok(record) => record,
        Err(error) => return refused(&error),
    };
    let files = guests.files();
    let log = match files.console(record.request.spec()) {
        Ok(log) => log,
        Err(refused) => {
            let message = refused.to_string();
            return refusal(StatusCode::FORBIDDEN, "console_log", message);
        }
    };
    let lines = lines.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
    let shown = log.as_path().to_owned();
    // A file system that hangs must not hold up the agent.
    match tokio::task::spawn_blocking(move || end_of(&log, lines)).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "text/plain")], text).into_response(),
        Ok(Err(error)) => {
            let message = format!("{}: {error}", shown.display());
            refusal(StatusCode::SERVICE_UNAVAILABLE, "console_log", message)
        }
        Err(_) => {
            let message = "reading the log ended with a fault of berth's own".to_owned();
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "bug", message)
        }
    }
}
