//! The HTTP API: guests are asked for and deleted here, and say how far they are. It believes its callers: who
//! may be one is for the socket to say that it is served on.

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
    API, BootStepShown, CreateGuest, GuestShown, GuestsShown, Refused, RefusedDetail,
    SchedulingShown, UnreadableShown,
};
use uuid::Uuid;

use crate::journal::{BootRecord, Course, JournalError, StepState};
use crate::{BootRequest, Conductor, ConductorError};

/// The largest body of a request for a guest, in bytes.
const BODY_LIMIT: usize = 256 << 10;

/// The longest message of a refusal in characters: it may repeat what was asked.
const LONGEST: usize = 4_000;

/// Method, path and what it does of each route, for the documentation.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/v1/guests",
        "All guests that were asked for here, with the steps of their boot.",
    ),
    (
        "POST",
        "/v1/guests",
        "Body `{\"name\", \"flavor\": {\"name\", \"vcpus\", \"ram_mb\", \"disk_gb\", \"extra_specs\"}, \"image\" or \"kernel\", \"networks\", \"device_profile\", \"host\", \"node\", \"availability_zone\", \"ignore_hosts\", \"scheduler_hints\", \"config_drive\", \"uuid\"}`. 202: it is written down and will be done, or will say why not, whatever happens to the conductor; the same again is the same guest. 409: another guest has its UUID, or it is being deleted.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}",
        "One guest, each step of each attempt, and why it failed or stands still.",
    ),
    (
        "GET",
        "/v1/guests/{uuid}/scheduling",
        "Why the guest went where it went: each decision of the scheduler that is still kept, also of a guest that is gone.",
    ),
    (
        "DELETE",
        "/v1/guests/{uuid}",
        "202: it will be gone, its accelerator requests and its allocation too.",
    ),
    (
        "GET",
        "/metrics",
        "The scheduler's metrics in Prometheus' text format. The headroom among them is made for who reads it, at most once in `[conductor_service] headroom_interval` seconds.",
    ),
];

/// The API of a conductor.
pub fn router(conductor: Conductor) -> Router {
    Router::new()
        .route("/v1/guests", get(list).post(create))
        .route("/v1/guests/{uuid}", get(show).delete(delete))
        .route("/v1/guests/{uuid}/scheduling", get(scheduling))
        .route("/metrics", get(metrics))
        .fallback(async || {
            let message = "there is no such path; /v1/guests is one, and /metrics".to_owned();
            refusal(StatusCode::NOT_FOUND, "no_such_path", message)
        })
        .method_not_allowed_fallback(async || {
            let message = "that path does not take this method".to_owned();
            refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                message,
            )
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(conductor)
}

async fn list(State(conductor): State<Conductor>) -> Response {
    match conductor.list().await {
        Ok(records) => {
            let guests = records.readable.iter();
            let guests = guests.map(|record| shown(&conductor, record));
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
        Err(error) => refused(&error),
    }
}

async fn show(State(conductor): State<Conductor>, Path(uuid): Path<String>) -> Response {
    match known(&uuid) {
        Ok(uuid) => told(&conductor, uuid, StatusCode::OK).await,
        Err(refusal) => *refusal,
    }
}

async fn scheduling(State(conductor): State<Conductor>, Path(uuid): Path<String>) -> Response {
    let uuid = match known(&uuid) {
        Ok(uuid) => uuid,
        Err(refusal) => return *refusal,
    };
    match conductor.scheduling(uuid).await {
        Ok(decisions) => Json(SchedulingShown {
            api: API.to_owned(),
            decisions,
        })
        .into_response(),
        Err(error) => refused(&error),
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
    let asked = match read(&headers, body) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let request = match BootRequest::new(asked, Uuid::new_v4()) {
        Ok(request) => request,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_request", error.to_string()),
    };
    match conductor.create(&request).await {
        Ok(_) => told(&conductor, request.uuid(), StatusCode::ACCEPTED).await,
        Err(error) => refused(&error),
    }
}

async fn delete(State(conductor): State<Conductor>, Path(uuid): Path<String>) -> Response {
    let uuid = match known(&uuid) {
        Ok(uuid) => uuid,
        Err(refusal) => return *refusal,
    };
    match conductor.delete(uuid).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => refused(&error),
    }
}

async fn told(conductor: &Conductor, uuid: ConsumerUuid, status: StatusCode) -> Response {
    match conductor.show(uuid).await {
        Ok(record) => (status, Json(shown(conductor, &record))).into_response(),
        Err(error) => refused(&error),
    }
}

/// A guest as it is shown: never its config drive.
fn shown(conductor: &Conductor, record: &BootRecord) -> GuestShown {
    let request = &record.request;
    let (status, fault) = match &record.course {
        Course::Boot => ("building", None),
        Course::Undo { failed, .. } => ("failing", Some(failed.to_string())),
        Course::Active => ("active", None),
        Course::Failed { reason, .. } => ("error", Some(reason.clone())),
        Course::Delete => ("deleting", None),
    };
    let is_there = |step| {
        let record = record.step(step);
        record.is_some_and(|record| record.state != StepState::Undone)
    };
    let chosen = record.placed();
    let arqs = record.requests(record.attempt);
    let arqs = arqs.filter(|_| is_there(crate::journal::BootStep::Arqs));
    let steps = record
        .steps
        .iter()
        .map(|((attempt, step), record)| BootStepShown {
            attempt: *attempt,
            step: step.to_string(),
            state: record.state.as_str().to_owned(),
        });
    let body = request.body();
    GuestShown {
        api: API.to_owned(),
        uuid: *request.uuid().as_uuid(),
        name: body.name.clone(),
        status: status.to_owned(),
        fault: conductor.held(request.uuid()).or(fault),
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

fn known(uuid: &str) -> Result<ConsumerUuid, Box<Response>> {
    uuid.parse().map_err(|_| {
        let message = "the path names no guest: a UUID is expected".to_owned();
        Box::new(refusal(StatusCode::NOT_FOUND, "not_found", message))
    })
}

fn read(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<CreateGuest, Box<Response>> {
    // A page in somebody's browser can send any other type here without asking first.
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map(|kind| kind.as_bytes());
    if !kind.is_some_and(|kind| kind.starts_with(b"application/json")) {
        let message = "the body must be of type application/json".to_owned();
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Box::new(refusal(status, "unsupported_media_type", message)));
    }
    let body = body.map_err(|rejection| {
        let (code, message) = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let message = format!("a body has at most {BODY_LIMIT} bytes");
            ("too_large", message)
        } else {
            ("bad_request", "the body did not arrive whole".to_owned())
        };
        Box::new(refusal(rejection.status(), code, message))
    })?;
    berth_wire::decode(&body).map_err(|error| {
        let refused = refusal(StatusCode::BAD_REQUEST, "bad_request", error.to_string());
        Box::new(refused)
    })
}

fn refused(error: &ConductorError) -> Response {
    let (status, code) = match error {
        ConductorError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        ConductorError::Other { .. } => (StatusCode::CONFLICT, "other"),
        ConductorError::Ending { .. } => (StatusCode::CONFLICT, "ending"),
        ConductorError::ExtraSpecs(_) | ConductorError::Hint(_) | ConductorError::Devices(_) => {
            (StatusCode::BAD_REQUEST, "bad_request")
        }
        ConductorError::Scheduling(_) => (StatusCode::SERVICE_UNAVAILABLE, "scheduling"),
        ConductorError::Journal(JournalError::Unreadable(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "unreadable")
        }
        ConductorError::Journal(_) => (StatusCode::SERVICE_UNAVAILABLE, "journal"),
    };
    refusal(status, code, error.to_string())
}

fn refusal(status: StatusCode, code: &str, message: String) -> Response {
    let body = Refused {
        api: API.to_owned(),
        error: RefusedDetail {
            code: code.to_owned(),
            message: bounded(&message, LONGEST).into_owned(),
        },
    };
    (status, Json(body)).into_response()
}
