//! The HTTP API of the conductor: create, list, show and delete guests. It has no authentication: access to its
//! socket is the authorisation.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use berth_model::ConsumerUuid;
use berth_wire::bounded;
use berth_wire::conductor::{
    API, BootRefusal, BootStepShown, CreateGuest, GuestShown, GuestsShown, RefusedDetail,
    SchedulingShown, UnreadableShown,
};
use uuid::Uuid;

use crate::journal::{BootGoal, BootRecord, JournalError, StepState};
use crate::{BootRequest, Conductor, ConductorError};

/// Maximum size of a request body in bytes.
const BODY_LIMIT: usize = 256 << 10;

/// Maximum length of an error message in characters: it may repeat parts of the request.
const MAX_MESSAGE: usize = 4_000;

/// Method, path and description of each route, for the documentation.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/v1/guests",
        "List all guests with the steps of their boots.",
    ),
    (
        "POST",
        "/v1/guests",
        "Body `{\"name\", \"flavor\": {\"name\", \"vcpus\", \"ram_mb\", \"disk_gb\", \"ephemeral_gb\", \"swap_mb\", \"extra_specs\"}, \"image\" or \"kernel\", \"networks\", \"device_profile\", \"host\", \"node\", \"availability_zone\", \"ignore_hosts\", \"scheduler_hints\", \"config_drive\", \"uuid\"}`. 202: the request is recorded, and the guest will be booted or fail with a reason, even if the conductor restarts; repeating the request has no effect. 400: the request names a device profile, an availability zone or an extra spec that does not exist. 409: another guest has this UUID or this name, or the guest is being deleted.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}",
        "Show a guest with the steps of each attempt, and why it failed or is blocked.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}/scheduling",
        "Show the recorded scheduling decisions of a guest, also after its deletion.",
    ),
    (
        "DELETE",
        "/v1/guests/{uuid}",
        "Delete a guest. 202: the guest, its accelerator requests and its allocations will be deleted.",
    ),
    (
        "GET",
        "/metrics",
        "The scheduler's metrics in Prometheus' text format. The headroom is computed on demand, at most once per `[conductor_service] headroom_interval` seconds.",
    ),
];

/// Builds the routes of the API.
pub fn router(conductor: Conductor) -> Router {
    Router::new()
        .route("/v1/guests", get(list).post(create))
        .route("/v1/guests/{uuid}", get(show).delete(delete))
        .route("/v1/guests/{uuid}/scheduling", get(scheduling))
        .route("/metrics", get(metrics))
        .fallback(async || {
            let message = "path not found; the API has /v1/guests and /metrics".to_owned();
            refusal_response(StatusCode::NOT_FOUND, "no_such_path", message)
        })
        .method_not_allowed_fallback(async || {
            let message = "method not allowed for this path".to_owned();
            refusal_response(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                message,
            )
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(conductor)
}

/// Builds the route of the metrics alone, for a listener without access control.
pub fn metrics_router(conductor: Conductor) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(async || {
            let message =
                "only /metrics is here; the API for guests is on the socket conductor.sock, \
                           and here with [conductor_service] auth_strategy = \"noauth2\""
                    .to_owned();
            refusal_response(StatusCode::NOT_FOUND, "no_such_path", message)
        })
        .with_state(conductor)
}

async fn list(State(conductor): State<Conductor>) -> Response {
    match conductor.list().await {
        Ok(records) => {
            let guests = records.readable.iter();
            let guests = guests.map(|record| guest_body(&conductor, record));
            let unreadable = records.unreadable.iter();
            let unreadable = unreadable.map(|guest| UnreadableShown {
                uuid: guest.guest.clone(),
                reason: guest.to_string(),
            });
            Json(GuestsShown {
                api: API.to_owned(),
                guests: guests.collect(),
                unreadable: unreadable.collect(),
            })
            .into_response()
        }
        Err(error) => error_response(&error),
    }
}

async fn show(State(conductor): State<Conductor>, Path(uuid): Path<String>) -> Response {
    match parse_uuid(&uuid) {
        Ok(uuid) => show_guest(&conductor, uuid, StatusCode::OK).await,
        Err(refusal) => *refusal,
    }
}

async fn scheduling(State(conductor): State<Conductor>, Path(uuid): Path<String>) -> Response {
    let uuid = match parse_uuid(&uuid) {
        Ok(uuid) => uuid,
        Err(refusal) => return *refusal,
    };
    match conductor.scheduling(uuid).await {
        Ok(decisions) => Json(SchedulingShown {
            api: API.to_owned(),
            decisions,
        })
        .into_response(),
        Err(error) => error_response(&error),
    }
}

async fn metrics(State(conductor): State<Conductor>) -> Response {
    let format = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (format, conductor.metrics().await).into_response()
}

async fn create(
    State(conductor): State<Conductor>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match read_body(&headers, body) {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let request = match BootRequest::new(body, Uuid::new_v4()) {
        Ok(request) => request,
        Err(error) => {
            return refusal_response(StatusCode::BAD_REQUEST, "bad_request", error.to_string());
        }
    };
    // A repeated request succeeds, whatever has changed since.
    let is_new = matches!(
        conductor.show(request.uuid()).await,
        Err(ConductorError::NotFound { .. })
    );
    if is_new && let Err(error) = conductor.check_new(&request).await {
        return error_response(&error);
    }
    match conductor.create(&request).await {
        Ok(_) => show_guest(&conductor, request.uuid(), StatusCode::ACCEPTED).await,
        Err(error) => error_response(&error),
    }
}

async fn delete(State(conductor): State<Conductor>, Path(uuid): Path<String>) -> Response {
    let uuid = match parse_uuid(&uuid) {
        Ok(uuid) => uuid,
        Err(refusal) => return *refusal,
    };
    match conductor.delete(uuid).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => error_response(&error),
    }
}

async fn show_guest(conductor: &Conductor, uuid: ConsumerUuid, status: StatusCode) -> Response {
    match conductor.show(uuid).await {
        Ok(record) => (status, Json(guest_body(conductor, &record))).into_response(),
        Err(error) => error_response(&error),
    }
}

/// The response body of a guest, without its config drive.
fn guest_body(conductor: &Conductor, record: &BootRecord) -> GuestShown {
    let request = &record.request;
    let (status, fault) = match &record.goal {
        BootGoal::Boot => ("building", None),
        BootGoal::Undo { failed, .. } => ("failing", Some(failed.to_string())),
        BootGoal::Active => ("active", None),
        BootGoal::Failed { reason, .. } => ("error", Some(reason.clone())),
        BootGoal::Delete => ("deleting", None),
    };
    let is_there = |step| {
        let record = record.step(step);
        record.is_some_and(|record| record.state != StepState::Undone)
    };
    let chosen = record.placement();
    let arqs = record.arqs(record.attempt);
    let arqs = arqs.filter(|_| is_there(crate::journal::BootStep::Arqs));
    let steps = record
        .steps
        .iter()
        .map(|((attempt, step), record)| BootStepShown {
            attempt: *attempt,
            step: step.to_string(),
            state: record.state.to_string(),
        });
    let body = request.body();
    GuestShown {
        api: API.to_owned(),
        uuid: *request.uuid().as_uuid(),
        name: body.name.clone(),
        status: status.to_owned(),
        fault: conductor.blocked_reason(request.uuid()).or(fault),
        node: chosen.map(|chosen| chosen.node.to_string()),
        image: conductor.image(request.uuid()),
        project_id: request.project_id().to_owned(),
        user_id: request.user_id().to_owned(),
        flavor: body.flavor.clone(),
        device_profile: body.device_profile.clone(),
        accelerator_requests: arqs
            .into_iter()
            .flat_map(|arqs| arqs.keys().map(|arq| *arq.as_uuid()))
            .collect(),
        steps: steps.collect(),
    }
}

fn parse_uuid(uuid: &str) -> Result<ConsumerUuid, Box<Response>> {
    uuid.parse().map_err(|_| {
        let message = "guest not found: the path must contain a UUID".to_owned();
        Box::new(refusal_response(
            StatusCode::NOT_FOUND,
            "not_found",
            message,
        ))
    })
}

fn read_body(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<CreateGuest, Box<Response>> {
    // A web page in a browser can send other content types cross-site without a preflight request.
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map(|kind| kind.as_bytes());
    if !kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        let message = "the content type must be application/json".to_owned();
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Box::new(refusal_response(
            status,
            "unsupported_media_type",
            message,
        )));
    }
    let body = body.map_err(|rejection| {
        let (code, message) = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("the body is larger than {BODY_LIMIT} bytes");
            ("too_large", message)
        } else {
            ("bad_request", "the body is incomplete".to_owned())
        };
        Box::new(refusal_response(rejection.status(), code, message))
    })?;
    berth_wire::decode(&body).map_err(|error| {
        let refused = refusal_response(StatusCode::BAD_REQUEST, "bad_request", error.to_string());
        Box::new(refused)
    })
}

fn error_response(error: &ConductorError) -> Response {
    let (status, code) = match error {
        ConductorError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        ConductorError::Conflict { .. } => (StatusCode::CONFLICT, "other"),
        ConductorError::Deleting { .. } => (StatusCode::CONFLICT, "ending"),
        ConductorError::NameTaken { .. } => (StatusCode::CONFLICT, "name"),
        ConductorError::ExtraSpecs(_)
        | ConductorError::Machine(_)
        | ConductorError::NoProfile { .. }
        | ConductorError::NoZone { .. }
        | ConductorError::Hint(_)
        | ConductorError::Spec(_) => (StatusCode::BAD_REQUEST, "bad_request"),
        ConductorError::Scheduling(_) => (StatusCode::SERVICE_UNAVAILABLE, "scheduling"),
        ConductorError::Journal(JournalError::Unreadable(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "unreadable")
        }
        ConductorError::Journal(_) => (StatusCode::SERVICE_UNAVAILABLE, "journal"),
    };
    refusal_response(status, code, error.to_string())
}

fn refusal_response(status: StatusCode, code: &str, message: String) -> Response {
    let body = BootRefusal {
        api: API.to_owned(),
        error: RefusedDetail {
            code: code.to_owned(),
            message: bounded(&message, MAX_MESSAGE).into_owned(),
        },
    };
    (status, Json(body)).into_response()
}
