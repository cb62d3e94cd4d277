//! Converts answers to values or errors.

use berth_wire::accelerator::AcceleratorErrorBody as ErrorDocument;
use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::{AcceleratorError, AcceleratorRefusal};
use crate::adapter::AdapterAnswer;
use crate::sanitize;

/// The maximum length of a refusal text, in characters. Cyborg returns tracebacks.
const MESSAGE: usize = 300;

/// Parses a 2xx answer.
pub(super) fn parsed<T: DeserializeOwned, V>(
    answer: AdapterAnswer,
    expected: &'static str,
    into: impl FnOnce(T) -> Result<V, BodyError>,
) -> Result<V, AcceleratorError> {
    let answer = require_success(answer)?;
    decode(&answer.body)
        .and_then(into)
        .map_err(|reason| malformed(answer, expected, reason))
}

/// Returns a 2xx answer; others are errors.
pub(super) fn require_success(answer: AdapterAnswer) -> Result<AdapterAnswer, AcceleratorError> {
    if answer.status.is_success() {
        Ok(answer)
    } else {
        Err(refused(answer))
    }
}

/// Returns the answer; `None` for the service's own 404. A 404 of something else at this URL says nothing
/// about the service's state.
pub(super) fn unless_not_found(
    answer: AdapterAnswer,
) -> Result<Option<AdapterAnswer>, AcceleratorError> {
    if answer.status != StatusCode::NOT_FOUND {
        return require_success(answer).map(Some);
    }
    match decode::<ErrorDocument>(&answer.body) {
        Ok(_) => Ok(None),
        Err(reason) => Err(malformed(answer, "the service's error document", reason)),
    }
}

fn malformed(answer: AdapterAnswer, expected: &'static str, reason: BodyError) -> AcceleratorError {
    AcceleratorError::Malformed {
        request: Box::new(answer.request),
        status: answer.status,
        request_id: answer.request_id,
        expected,
        reason,
    }
}

fn refused(answer: AdapterAnswer) -> AcceleratorError {
    let refusal = Box::new(AcceleratorRefusal {
        message: message(&answer.body),
        request: answer.request,
        status: answer.status,
        request_id: answer.request_id,
    });
    match refusal.status {
        StatusCode::UNAUTHORIZED => AcceleratorError::Unauthorized(refusal),
        StatusCode::FORBIDDEN => AcceleratorError::Forbidden(refusal),
        StatusCode::NOT_FOUND => AcceleratorError::NotFound(refusal),
        // 423: some of a guest's requests are not resolved.
        StatusCode::CONFLICT | StatusCode::LOCKED => AcceleratorError::Conflict(refusal),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            AcceleratorError::Unavailable(refusal)
        }
        status if status.is_server_error() => AcceleratorError::Unavailable(refusal),
        _ => AcceleratorError::Refused(refusal),
    }
}

/// The message of the service, or of a proxy.
fn message(body: &[u8]) -> String {
    let message = decode::<ErrorDocument>(body)
        .map(|document| document.message())
        .unwrap_or_else(|_| sanitize::other_message(body));
    // The traceback follows the useful sentence.
    let sentence = message.split("Traceback (most recent call").next();
    sanitize::one_line(sentence.unwrap_or_default(), MESSAGE)
}
