//! Routes of the host's devices in the admin API: list, show, reset, quarantine and release.

pub mod body;
pub mod client;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use berth_agent_devices::{ActError, ActionMode, ActionReport, DeviceManager};
use berth_virt::VirtDriver;

use crate::body::{API, STATE_FILES};
use crate::devices::body::{DeviceAction, DeviceActionResult, DeviceDocument, HostDeviceList};
use crate::refusal::refusal;

const BODY_LIMIT: usize = 16 << 10;

/// Method, path and description of each route, for the generated documentation.
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

pub fn routes<D: VirtDriver>(devices: &DeviceManager<D>) -> Router {
    Router::new()
        .route("/v1/devices", get(list::<D>))
        .route("/v1/devices/{name}", get(show::<D>))
        .route("/v1/devices/{name}/reset", post(reset::<D>))
        .route("/v1/devices/{name}/quarantine", post(quarantine::<D>))
        .route("/v1/devices/{name}/release", post(release::<D>))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(devices.clone())
}

async fn list<D: VirtDriver>(State(devices): State<DeviceManager<D>>) -> Response {
    if let Err(error) = devices.refresh().await {
        return device_refusal(&error.into());
    }
    let devices = devices.statuses(None);
    let devices = devices.into_iter().map(Into::into).collect();
    let api = API.to_owned();
    Json(HostDeviceList { api, devices }).into_response()
}

async fn show<D: VirtDriver>(
    State(devices): State<DeviceManager<D>>,
    Path(name): Path<String>,
) -> Response {
    if let Err(error) = devices.refresh().await {
        return device_refusal(&error.into());
    }
    let devices = devices.statuses(Some(&name));
    if devices.is_empty() {
        return device_refusal(&ActError::NotFound { name });
    }
    let devices = devices.into_iter().map(Into::into).collect();
    let api = API.to_owned();
    Json(DeviceDocument { api, devices }).into_response()
}

async fn reset<D: VirtDriver>(
    State(devices): State<DeviceManager<D>>,
    Path(name): Path<String>,
    ActionBody(action): ActionBody,
) -> Response {
    // Spawned, so that a client that disconnects does not interrupt the reset.
    action_response(
        tokio::spawn(async move { devices.reset(&name, dry_run_of(&action)).await }).await,
    )
}

async fn quarantine<D: VirtDriver>(
    State(devices): State<DeviceManager<D>>,
    Path(name): Path<String>,
    ActionBody(action): ActionBody,
) -> Response {
    let reason = action.reason.clone().unwrap_or_default();
    action_response(Ok(devices
        .quarantine(&name, &reason, dry_run_of(&action))
        .await))
}

async fn release<D: VirtDriver>(
    State(devices): State<DeviceManager<D>>,
    Path(name): Path<String>,
    ActionBody(action): ActionBody,
) -> Response {
    let risk = action.accept_risk.first().copied();
    let released = async move { devices.release(&name, risk, dry_run_of(&action)).await };
    action_response(tokio::spawn(released).await)
}

/// The body of an action, as an extractor. A request without a body has the defaults of each field.
struct ActionBody(DeviceAction);

impl<S: Send + Sync> FromRequest<S> for ActionBody {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let body = Bytes::from_request(request, state).await;
        let body = body
            .map_err(|rejected| refusal(rejected.status(), "unreadable", rejected.body_text()))?;
        if body.is_empty() {
            return Ok(Self(DeviceAction::default()));
        }
        let action = berth_wire::decode(&body);
        action
            .map(Self)
            .map_err(|error| refusal(StatusCode::BAD_REQUEST, "bad_request", error.to_string()))
    }
}

fn dry_run_of(action: &DeviceAction) -> ActionMode {
    match action.dry_run {
        true => ActionMode::DryRun,
        false => ActionMode::Execute,
    }
}

fn action_response(
    outcome: Result<Result<ActionReport, ActError>, tokio::task::JoinError>,
) -> Response {
    match outcome {
        Ok(Ok(report)) => Json(DeviceActionResult::from(report)).into_response(),
        Ok(Err(error)) => device_refusal(&error),
        Err(_) => {
            let message = "the action panicked; see the agent's log".to_owned();
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "bug", message)
        }
    }
}

fn device_refusal(error: &ActError) -> Response {
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
