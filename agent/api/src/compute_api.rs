//! What services ask of Nova, answered by the agent: `POST /v2.1/os-server-external-events` (Compute API, microversions 2.1 to
//! 2.82), and the version documents that clients look for before.
//!
//! A guest that is not known here, or not yet, is answered with the code 422 in a 207, as Nova answers for a guest without a host:
//! the wait asks for itself when it begins, and the real Cyborg takes a 404 for a failed bind.

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

use crate::compute_api::body::{Asked, events};
use crate::compute_api::version::{Version, versioned};

/// The largest body, in bytes: some three hundred events.
const BODY_LIMIT: usize = 64 << 10;
/// The route of events.
const EVENTS: &str = "/v2.1/os-server-external-events";

/// Who may tell events.
#[derive(Clone)]
pub enum EventSources {
    /// Whoever comes this far: the unix socket's peers, or `auth_strategy = noauth2`.
    Anybody,
    /// Those whose token Keystone knows and gives one of these roles (Nova's rule: `service` or `admin`).
    WithToken {
        identity: Box<IdentityClient>,
        roles: Arc<[String]>,
    },
}

#[derive(Clone)]
struct Desk {
    journal: Arc<dyn GuestJournal>,
    events: ExternalEvents,
    sources: EventSources,
}

pub fn compute_api(
    journal: Arc<dyn GuestJournal>,
    events: ExternalEvents,
    sources: EventSources,
) -> Router {
    Router::new()
        .route("/v2.1", get(version::document))
        .route("/v2.1/", get(version::document))
        .route(EVENTS, post(tell))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(Desk {
            journal,
            events,
            sources,
        })
}

async fn tell(
    State(desk): State<Desk>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let version = match version::asked(&headers) {
        Ok(version) => version,
        Err(message) => return fault(StatusCode::NOT_ACCEPTABLE, &message),
    };
    if let Err(refused) = admitted(&desk.sources, &headers).await {
        return versioned(version, refused);
    }
    let answer = match body {
        Ok(body) => told(&desk, version, &body).await,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("a body has at most {BODY_LIMIT} bytes");
            fault(StatusCode::PAYLOAD_TOO_LARGE, &message)
        }
        Err(_) => fault(StatusCode::BAD_REQUEST, "the body did not arrive whole"),
    };
    versioned(version, answer)
}

async fn admitted(sources: &EventSources, headers: &HeaderMap) -> Result<(), Response> {
    let EventSources::WithToken { identity, roles } = sources else {
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
            let message = format!("events may be told with the role {}", roles.join(" or "));
            Err(fault(StatusCode::FORBIDDEN, &message))
        }
        Ok(None) => Err(unauthorized()),
        Err(error) => {
            tracing::warn!(%error, "a token could not be looked at; events were refused");
            let message = "Keystone could not be asked whose the token is";
            Err(fault(StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}

async fn told(desk: &Desk, version: Version, body: &[u8]) -> Response {
    let asked = match events(body, version) {
        Ok(asked) => asked,
        Err(message) => return fault(StatusCode::BAD_REQUEST, &message),
    };
    let mut answers = Vec::with_capacity(asked.len());
    for event in asked {
        let code = match heard(desk, &event).await {
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

/// Hands one event on; the code of its answer.
async fn heard(desk: &Desk, event: &Asked) -> Result<StatusCode, Response> {
    // The only kind that an agent acts on.
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
    let listened = desk.events.tell(BindEvent {
        instance,
        arq,
        status,
    });
    tracing::debug!(guest = %instance, %arq, status = status.as_str(), listened, "an accelerator request's bind has ended");
    if listened {
        return Ok(StatusCode::OK);
    }
    match desk.journal.guest(instance).await {
        Ok(Some(_)) => Ok(StatusCode::OK),
        Ok(None) => Ok(StatusCode::UNPROCESSABLE_ENTITY),
        Err(error) => {
            tracing::warn!(%error, "an event could not be matched with a guest");
            let message = "the agent cannot read its journal";
            Err(fault(StatusCode::SERVICE_UNAVAILABLE, message))
        }
    }
}

/// A refusal as Nova words it.
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
