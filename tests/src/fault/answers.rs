//! The refusals of the peers, byte for byte in their formats.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use berth_fault_injection::Fault;

/// The refusal of a fault; none for a fault that is no refusal. `identity` is Keystone's shape, else Placement's.
pub(super) fn refusal(fault: Fault, identity: bool) -> Option<Response<Bytes>> {
    let (status, code, detail) = match fault {
        Fault::InternalError => (500, "placement.undefined_code", "an internal error"),
        Fault::ServiceUnavailable => (503, "placement.undefined_code", "try again later"),
        Fault::Unauthorized | Fault::TokenExpired => return Some(unauthorized()),
        Fault::Forbidden => (403, "placement.undefined_code", "a role is missing"),
        Fault::BadRequest => (400, "placement.undefined_code", "malformed"),
        Fault::Conflict => (
            409,
            "placement.concurrent_update",
            "resource provider generation conflict",
        ),
        _ => return None,
    };
    let status = StatusCode::from_u16(status).ok()?;
    let title = status.canonical_reason().unwrap_or_default();
    let body = if identity {
        json!({"error": {"code": status.as_u16(), "message": detail, "title": title}})
    } else {
        json!({"errors": [{"status": status.as_u16(), "title": title, "detail": detail, "code": code,
            "request_id": "req-00000000-0000-0000-0000-000000000000"}]})
    };
    Some(answer(status, body.to_string()))
}

pub(super) fn unauthorized() -> Response<Bytes> {
    let text = "The request you have made requires authentication.";
    let body = json!({"error": {"code": 401, "message": text, "title": "Unauthorized"}});
    answer(StatusCode::UNAUTHORIZED, body.to_string())
}

fn answer(status: StatusCode, body: String) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
