//! The part of Nova's compute API that the agent implements: `POST /v2.1/os-server-external-events` (microversions 2.1
//! to 2.82), and the version documents that clients request first.
//!
//! An event for an unknown guest gets the code 422 in a 207 response, as in Nova for an instance without a host. With a 404, Cyborg
//! would treat the bind as failed. The event is not needed later: a guest that starts to wait reads its accelerator requests first.

mod body;
mod version;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use berth_agent_instances::{BindEvent, ExternalEvents};
use berth_agent_journal::GuestJournal;
use berth_client::IdentityClient;
use berth_model::{ArqUuid, ConsumerUuid};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, ServerExternalEvent, ServerExternalEvents};
use serde_json::json;

use crate::compute_api::body::{ReportedEvent, events};
use crate::compute_api::version::{ComputeMicroversion, with_version_headers};

/// Largest request body in bytes; enough for about 300 events.
pub(crate) const BODY_LIMIT: usize = 64 << 10;
const EVENTS: &str = "/v2.1/os-server-external-events";

/// How clients that report events are authenticated.
#[derive(Clone)]
pub enum EventAuth {
    /// No token is needed: for peers of the unix socket, and with `auth_strategy = noauth2`.
    NoToken,
    /// The client needs a Keystone token with one of these roles (Nova's rule: `service` or `admin`).
    WithToken {
        identity: Box<IdentityClient>,
        roles: Arc<[String]>,
    },
}

#[derive(Clone)]
struct EventApiState {
    journal: Arc<dyn GuestJournal>,
    events: ExternalEvents,
    auth: EventAuth,
}

pub fn compute_api(
    journal: Arc<dyn GuestJournal>,
    events: ExternalEvents,
    auth: EventAuth,
) -> Router {
    Router::new()
        .route("/v2.1", get(version::document))
        .route("/v2.1/", get(version::document))
        .route(EVENTS, post(report_events))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(EventApiState {
            journal,
            events,
            auth,
        })
}

async fn report_events(
    State(state): State<EventApiState>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let version = match version::requested_version(&headers) {
        Ok(version) => version,
        Err(message) => return fault(StatusCode::NOT_ACCEPTABLE, &message),
    };
    if let Err(refused) = check_token(&state.auth, &headers).await {
        return with_version_headers(version, refused);
    }
    let answer = match body {
        Ok(body) => deliver_events(&state, version, &body).await,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("a body has at most {BODY_LIMIT} bytes");
            fault(StatusCode::PAYLOAD_TOO_LARGE, &message)
        }
        Err(_) => fault(StatusCode::BAD_REQUEST, "the request body is incomplete"),
    };
    with_version_headers(version, answer)
}

async fn check_token(auth: &EventAuth, headers: &HeaderMap) -> Result<(), Response> {
    let EventAuth::WithToken { identity, roles } = auth else {
        return Ok(());
    };
    let unauthorized = || fault(StatusCode::UNAUTHORIZED, "The request needs a valid token.");
    let token = headers.get("x-auth-token").ok_or_else(unauthorized)?;
    let token = token.to_str().map_err(|_| unauthorized())?;
    match identity.validate(token).await {
        Ok(Some(found)) => {
            let mut held = found.roles.iter();
            if held.any(|role| roles.iter().any(|may| may.eq_ignore_ascii_case(&role.name))) {
                return Ok(());
            }
            let message = format!("reporting events needs the role {}", roles.join(" or "));
            Err(fault(StatusCode::FORBIDDEN, &message))
        }
        Ok(None) => Err(unauthorized()),
        Err(error) => {
            tracing::warn!(%error, "a token could not be validated; events were refused");
            let message = "Keystone could not validate the token";
            Err(fault(StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}

async fn deliver_events(
    state: &EventApiState,
    version: ComputeMicroversion,
    body: &[u8],
) -> Response {
    let asked = match events(body, version) {
        Ok(asked) => asked,
        Err(message) => return fault(StatusCode::BAD_REQUEST, &message),
    };
    let mut answers = Vec::with_capacity(asked.len());
    for event in asked {
        let code = match deliver_event(state, &event).await {
            Ok(code) => code,
            Err(unread) => return unread,
        };
        answers.push(ServerExternalEvent {
            name: event.name,
            server_uuid: event.server_uuid,
            tag: event.tag,
            status: Some(event.status),
            code: Some(code.as_u16()),
        });
    }
    let whole = answers.iter().all(|event| event.code == Some(200));
    let status = if whole {
        StatusCode::OK
    } else {
        StatusCode::MULTI_STATUS
    };
    (status, Json(ServerExternalEvents { events: answers })).into_response()
}

/// Delivers one event to the guest that waits for it, and returns the event's status code.
async fn deliver_event(
    state: &EventApiState,
    event: &ReportedEvent,
) -> Result<StatusCode, Response> {
    // The agent acts on no other event.
    if event.name != ACCELERATOR_REQUEST_BOUND {
        return Ok(StatusCode::BAD_REQUEST);
    }
    let arq = event
        .tag
        .as_deref()
        .and_then(|tag| tag.parse::<ArqUuid>().ok());
    let Some(arq) = arq else {
        return Ok(StatusCode::BAD_REQUEST);
    };
    let instance = ConsumerUuid::from(event.server_uuid);
    let status = event.status;
    let listened = state.events.dispatch(BindEvent {
        instance,
        arq,
        status,
    });
    tracing::debug!(guest = %instance, %arq, status = status.as_str(), listened, "received the bind event of an accelerator request");
    if listened {
        return Ok(StatusCode::OK);
    }
    match state.journal.guest(instance).await {
        Ok(Some(_)) => Ok(StatusCode::OK),
        Ok(None) => Ok(StatusCode::UNPROCESSABLE_ENTITY),
        Err(error) => {
            tracing::warn!(%error, "an event was refused: the journal cannot be read");
            let message = "the agent cannot read its journal";
            Err(fault(StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}

/// An error response in Nova's format.
fn fault(status: StatusCode, message: &str) -> Response {
    let name = match status {
        StatusCode::BAD_REQUEST => "badRequest",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::PAYLOAD_TOO_LARGE => "overLimit",
        StatusCode::SERVICE_UNAVAILABLE => "serviceUnavailable",
        _ => "computeFault",
    };
    let body = json!({name: {"code": status.as_u16(), "message": message}});
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests;
