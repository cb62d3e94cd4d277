//! From an answer to a value or an error.

use berth_wire::accelerator::AcceleratorError as ErrorDocument;
use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::{AcceleratorError, AcceleratorRefusal};
use crate::adapter::Answer;
use crate::foreign;

/// Longest refusal text that is repeated, in characters. Cyborg answers with tracebacks.
const MESSAGE: usize = 300;

/// The value of an answer of 2xx.
pub(super) fn parsed<T: DeserializeOwned, V>(
    answer: Answer,
    expected: &'static str,
    into: impl FnOnce(T) -> Result<V, BodyError>,
) -> Result<V, AcceleratorError> {
    let answer = done(answer)?;
    decode(&answer.body)
        .and_then(into)
        .map_err(|reason| malformed(answer, expected, reason))
}

/// The answer, if it is of 2xx.
pub(super) fn done(answer: Answer) -> Result<Answer, AcceleratorError> {
    if answer.status.is_success() {
        Ok(answer)
    } else {
        Err(refused(answer))
    }
}

/// The answer; none for the service's own 404. A 404 of something else that answers at this URL says nothing about what the
/// service has.
pub(super) fn found(answer: Answer) -> Result<Option<Answer>, AcceleratorError> {
    if answer.status != StatusCode::NOT_FOUND {
        return done(answer).map(Some);
    }
    match decode::<ErrorDocument>(&answer.body) {
        Ok(_) => Ok(None),
        Err(reason) => Err(malformed(answer, "the service's error document", reason)),
    }
}

fn malformed(answer: Answer, expected: &'static str, reason: BodyError) -> AcceleratorError {
    AcceleratorError::Malformed {
        request: Box::new(answer.request),
        status: answer.status,
        request_id: answer.request_id,
        expected,
        reason,
    }
}

fn refused(answer: Answer) -> AcceleratorError {
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

/// The service's words, or those of what stands before it.
fn message(body: &[u8]) -> String {
    let said = decode::<ErrorDocument>(body)
        .map(|document| document.message())
        .unwrap_or_else(|_| foreign::other_message(body));
    // A traceback comes after the sentence that matters.
    let sentence = said.split("Traceback (most recent call").next();
    foreign::one_line(sentence.unwrap_or_default(), MESSAGE)
}
