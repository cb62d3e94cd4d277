//! GET /v1/guests/{uuid}/console: the end of a guest's serial console log.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use berth_agent_instances::console::end_of;
use berth_agent_instances::{GuestResources, Guests};
use berth_virt::VirtDriver;
use serde::Deserialize;

use crate::instances::{GuestPath, guests_refusal};
use crate::refusal::refusal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConsoleQuery {
    lines: Option<u32>,
}

pub(super) async fn console<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    GuestPath(uuid): GuestPath,
    wanted: Result<Query<ConsoleQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(ConsoleQuery { lines })) = wanted else {
        let message = "the only query parameter is lines, a whole number".to_owned();
        return refusal(StatusCode::BAD_REQUEST, "bad_query", message);
    };
    let record = match guests.show(uuid).await {
        Ok(record) => record,
        Err(error) => return guests_refusal(&error),
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
    // In a blocking thread: the file system may hang.
    match tokio::task::spawn_blocking(move || end_of(&log, lines)).await {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, "text/plain")], text).into_response(),
        Ok(Err(error)) => {
            let message = format!("{}: {error}", shown.display());
            refusal(StatusCode::SERVICE_UNAVAILABLE, "console_log", message)
        }
        Err(_) => {
            let message = "reading the console log panicked; see the agent's log".to_owned();
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "bug", message)
        }
    }
}
