//! Converts answers to values or errors.

use berth_wire::accelerator::AcceleratorErrorBody as ErrorDocument;
use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::AcceleratorError;
use crate::answer::{AdapterAnswer, is_unavailable};
use crate::sanitize;

/// The maximum length of a refusal text, in characters. Cyborg returns tracebacks.
const MESSAGE: usize = 300;

/// Parses a 2xx answer.
pub(super) fn parsed<T: DeserializeOwned, V>(
    answer: AdapterAnswer,
    expected: &'static str,
    into: impl FnOnce(T) -> Result<V, BodyError>,
) -> Result<V, AcceleratorError> {
    require_success(answer)?.parse(expected, into)
}

/// Returns a 2xx answer; others are errors.
pub(super) fn require_success(answer: AdapterAnswer) -> Result<AdapterAnswer, AcceleratorError> {
    answer.success_or(refused)
}

/// Returns the answer; `None` for the service's own 404.
pub(super) fn unless_not_found(
    answer: AdapterAnswer,
) -> Result<Option<AdapterAnswer>, AcceleratorError> {
    answer.unless_not_found::<ErrorDocument, _>("the service's error document", refused)
}

fn refused(answer: AdapterAnswer) -> AcceleratorError {
    let message = message(&answer.body);
    let refusal = answer.refusal(&message, MESSAGE);
    match refusal.status {
        StatusCode::UNAUTHORIZED => AcceleratorError::Unauthorized(refusal),
        StatusCode::FORBIDDEN => AcceleratorError::Forbidden(refusal),
        StatusCode::NOT_FOUND => AcceleratorError::NotFound(refusal),
        // 423: some of a guest's requests are not resolved.
        StatusCode::CONFLICT | StatusCode::LOCKED => AcceleratorError::Conflict(refusal),
        status if is_unavailable(status) => AcceleratorError::Unavailable(refusal),
        _ => AcceleratorError::Refused(refusal),
    }
}

/// The message of the service, or of a proxy.
fn message(body: &[u8]) -> String {
    let mut message = decode::<ErrorDocument>(body)
        .map(|document| document.message())
        .unwrap_or_else(|_| sanitize::other_message(body));
    // The traceback follows the useful sentence.
    if let Some(end) = message.find("Traceback (most recent call") {
        message.truncate(end);
    }
    message
}
