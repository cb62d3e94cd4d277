//! Devices over the agent's admin API: list, show, reset, quarantine, release.

pub mod body;
pub mod client;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use berth_agent_devices::{ActError, ActionReport, Devices, DryRun};
use berth_virt::VirtDriver;

use crate::body::{API, STATE_FILES};
use crate::devices::body::{DeviceActed, DeviceAction, DeviceDocument, DeviceList};
use crate::refusal::refusal;

/// The largest body of a request, in bytes.
const BODY_LIMIT: usize = 16 << 10;

/// Method, path and what it does of each route, for the documentation of whoever offers them.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/v1/devices",
        "Devices that this host offers to guests, with their users and states: `free`, `held`, `bound`, `unclean`, `resetting`, `quarantined`, `unfit`.",
    ),
    (
        "GET",
        "/v1/devices/{name}",
        "One device, by its PCI address or a mediated device's UUID. A card's address returns everything that the card offers.",
    ),
    (
        "POST",
        "/v1/devices/{name}/reset",
        "Resets an unused device and waits until the reset is verified. Body `{\"dry_run\": false}`. 409: a guest or an accelerator request uses the device.",
    ),
    (
        "POST",
        "/v1/devices/{name}/quarantine",
        "Excludes the device from assignment, also after a restart. Body `{\"reason\": \"...\", \"dry_run\": false}`. A guest that uses the device keeps it.",
    ),
    (
        "POST",
        "/v1/devices/{name}/release",
        "Resets the device and ends the quarantine if the reset was verified. Body `{\"dry_run\": false, \"accept_risk\": []}`; the risk `unclean-device` skips the reset.",
    ),
];

pub fn routes<D: VirtDriver>(devices: &Devices<D>) -> Router {
    Router::new()
        .route("/v1/devices", get(list::<D>))
        .route("/v1/devices/{name}", get(show::<D>))
        .route("/v1/devices/{name}/reset", post(reset::<D>))
        .route("/v1/devices/{name}/quarantine", post(quarantine::<D>))
        .route("/v1/devices/{name}/release", post(release::<D>))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(devices.clone())
}

async fn list<D: VirtDriver>(State(devices): State<Devices<D>>) -> Response {
    if let Err(error) = devices.refresh().await {
        return refused(&error.into());
    }
    let devices = devices.statuses(None);
    let devices = devices.into_iter().map(Into::into).collect();
    let api = API.to_owned();
    Json(DeviceList { api, devices }).into_response()
}

async fn show<D: VirtDriver>(
    State(devices): State<Devices<D>>,
    Path(name): Path<String>,
) -> Response {
    if let Err(error) = devices.refresh().await {
        return refused(&error.into());
    }
    let devices = devices.statuses(Some(&name));
    if devices.is_empty() {
        return refused(&ActError::NotFound { name });
    }
    let devices = devices.into_iter().map(Into::into).collect();
    let api = API.to_owned();
    Json(DeviceDocument { api, devices }).into_response()
}

async fn reset<D: VirtDriver>(
    State(devices): State<Devices<D>>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let action = match read(body) {
        Ok(action) => action,
        Err(refusal) => return *refusal,
    };
    // A client that goes away must not leave a reset half-way.
    done(tokio::spawn(async move { devices.reset(&name, doing(&action)).await }).await)
}

async fn quarantine<D: VirtDriver>(
    State(devices): State<Devices<D>>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let action = match read(body) {
        Ok(action) => action,
        Err(refusal) => return *refusal,
    };
    let reason = action.reason.clone().unwrap_or_default();
    done(Ok(devices.quarantine(&name, &reason, doing(&action)).await))
}

async fn release<D: VirtDriver>(
    State(devices): State<Devices<D>>,
    Path(name): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let action = match read(body) {
        Ok(action) => action,
        Err(refusal) => return *refusal,
    };
    let risk = action.accept_risk.first().copied();
    let released = async move { devices.release(&name, risk, doing(&action)).await };
    done(tokio::spawn(released).await)
}

fn doing(action: &DeviceAction) -> DryRun {
    match action.dry_run {
        true => DryRun::Yes,
        false => DryRun::No,
    }
}

/// The body; none at all is one that says nothing.
fn read(body: Result<Bytes, BytesRejection>) -> Result<DeviceAction, Box<Response>> {
    let body = body.map_err(|rejected| {
        let refused = refusal(rejected.status(), "unreadable", rejected.body_text());
        Box::new(refused)
    })?;
    if body.is_empty() {
        return Ok(DeviceAction::default());
    }
    berth_wire::decode(&body).map_err(|error| {
        let refused = refusal(StatusCode::BAD_REQUEST, "bad_request", error.to_string());
        Box::new(refused)
    })
}

fn done(acted: Result<Result<ActionReport, ActError>, tokio::task::JoinError>) -> Response {
    match acted {
        Ok(Ok(acted)) => Json(DeviceActed::from(acted)).into_response(),
        Ok(Err(error)) => refused(&error),
        Err(_) => {
            let message = "it ended with a fault of berth's own; its log says which".to_owned();
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "bug", message)
        }
    }
}

fn refused(error: &ActError) -> Response {
    let (status, code) = match error {
        ActError::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
        ActError::Reason => (StatusCode::BAD_REQUEST, "bad_request"),
        ActError::Held { .. } => (StatusCode::CONFLICT, "held"),
        ActError::Bound { .. } => (StatusCode::CONFLICT, "bound"),
        ActError::NotQuarantined { .. } => (StatusCode::CONFLICT, "not_quarantined"),
        ActError::Busy { .. } => (StatusCode::CONFLICT, "busy"),
        ActError::Reset { .. } => (StatusCode::CONFLICT, "reset_failed"),
        ActError::Hypervisor(_) => (StatusCode::SERVICE_UNAVAILABLE, "hypervisor"),
        ActError::Journal(_) => (StatusCode::SERVICE_UNAVAILABLE, STATE_FILES),
    };
    refusal(status, code, error.to_string())
}
