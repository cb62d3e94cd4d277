//! Converts answers to values or errors.

use berth_wire::decode;
use berth_wire::placement::ErrorDocument;
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::HostsError;
use crate::answer::{AdapterAnswer, is_unavailable};
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
    answer.success_or(refused)?.parse(expected, Ok)
}

/// Returns the answer; `None` for the service's own 404. A 404 of something else says nothing
/// about the service's state.
pub(super) fn unless_not_found(answer: AdapterAnswer) -> Result<Option<AdapterAnswer>, HostsError> {
    let is_own = error_message(&answer.body).is_some();
    if answer.status == StatusCode::NOT_FOUND && is_own {
        return Ok(None);
    }
    answer.success_or(refused).map(Some)
}

fn refused(answer: AdapterAnswer) -> HostsError {
    let message =
        error_message(&answer.body).unwrap_or_else(|| sanitize::other_message(&answer.body));
    let refusal = answer.refusal(&message, MESSAGE);
    match refusal.status {
        StatusCode::UNAUTHORIZED => HostsError::Unauthorized(refusal),
        StatusCode::FORBIDDEN => HostsError::Forbidden(refusal),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => HostsError::NoRoute(refusal),
        StatusCode::CONFLICT => HostsError::Conflict(refusal),
        status if is_unavailable(status) => HostsError::Unavailable(refusal),
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
