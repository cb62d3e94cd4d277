//! Converts answers to values or errors.

use berth_wire::placement::ErrorDocument;
use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{HostsError, HostsRefusal};
use crate::adapter::AdapterAnswer;
use crate::sanitize;

/// Longest refusal text that is repeated, in characters.
const MESSAGE: usize = 500;

/// `{"error": {"code": ..., "message": ...}}`, whatever the code is.
#[derive(Deserialize)]
struct CodedBody {
    error: HostsErrorMessage,
}

#[derive(Deserialize)]
struct HostsErrorMessage {
    message: String,
}

/// Parses a 2xx answer.
pub(super) fn parsed<T: DeserializeOwned>(
    answer: AdapterAnswer,
    expected: &'static str,
) -> Result<T, HostsError> {
    let answer = require_success(answer)?;
    decode(&answer.body).map_err(|reason| malformed(answer, expected, reason))
}

/// Returns the answer; `None` for the service's own 404. A 404 of something else says nothing
/// about the service's state.
pub(super) fn unless_not_found(answer: AdapterAnswer) -> Result<Option<AdapterAnswer>, HostsError> {
    let is_own = error_message(&answer.body).is_some();
    if answer.status == StatusCode::NOT_FOUND && is_own {
        return Ok(None);
    }
    require_success(answer).map(Some)
}

fn require_success(answer: AdapterAnswer) -> Result<AdapterAnswer, HostsError> {
    if answer.status.is_success() {
        Ok(answer)
    } else {
        Err(refused(answer))
    }
}

fn malformed(answer: AdapterAnswer, expected: &'static str, reason: BodyError) -> HostsError {
    HostsError::Malformed {
        request: Box::new(answer.request),
        status: answer.status,
        request_id: answer.request_id,
        expected,
        reason,
    }
}

fn refused(answer: AdapterAnswer) -> HostsError {
    let message =
        error_message(&answer.body).unwrap_or_else(|| sanitize::other_message(&answer.body));
    let refusal = Box::new(HostsRefusal {
        request: answer.request,
        status: answer.status,
        message: sanitize::one_line(&message, MESSAGE),
        request_id: answer.request_id,
    });
    match refusal.status {
        StatusCode::UNAUTHORIZED => HostsError::Unauthorized(refusal),
        StatusCode::FORBIDDEN => HostsError::Forbidden(refusal),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => HostsError::NoRoute(refusal),
        StatusCode::CONFLICT => HostsError::Conflict(refusal),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            HostsError::Unavailable(refusal)
        }
        status if status.is_server_error() => HostsError::Unavailable(refusal),
        _ => HostsError::Refused(refusal),
    }
}

/// The message in the service's error document; `None` for other bodies.
fn error_message(body: &[u8]) -> Option<String> {
    let document = decode::<ErrorDocument>(body).ok();
    let first = document.and_then(|document| {
        let first = document.errors.first()?;
        Some(first.message().to_owned())
    });
    first.or_else(|| Some(decode::<CodedBody>(body).ok()?.error.message))
}
