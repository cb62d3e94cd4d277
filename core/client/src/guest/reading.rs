//! From an answer to a value or an error.

use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{GuestApiError, GuestRefusal};
use crate::adapter::Answer;
use crate::foreign;

/// Longest refusal text that is repeated, in characters.
const MESSAGE: usize = 2000;

#[derive(Deserialize)]
struct Refusal {
    error: Detail,
}

#[derive(Deserialize)]
struct Detail {
    code: String,
    message: String,
}

/// The value of an answer of 2xx.
pub(super) fn parsed<T: DeserializeOwned>(answer: Answer) -> Result<T, GuestApiError> {
    let answer = done(answer)?;
    decode(&answer.body).map_err(|reason| malformed(answer, reason))
}

/// The answer, if it is of 2xx.
pub(super) fn done(answer: Answer) -> Result<Answer, GuestApiError> {
    if answer.status.is_success() {
        Ok(answer)
    } else {
        Err(refused(answer))
    }
}

/// The answer; none for the API's own 404. A 404 of something else says nothing about what the API has.
pub(super) fn found(answer: Answer) -> Result<Option<Answer>, GuestApiError> {
    if answer.status != StatusCode::NOT_FOUND {
        return done(answer).map(Some);
    }
    match decode::<Refusal>(&answer.body) {
        Ok(_) => Ok(None),
        Err(reason) => Err(malformed(answer, reason)),
    }
}

fn malformed(answer: Answer, reason: BodyError) -> GuestApiError {
    GuestApiError::Malformed {
        request: Box::new(answer.request),
        status: answer.status,
        reason,
    }
}

fn refused(answer: Answer) -> GuestApiError {
    let (code, message) = match decode::<Refusal>(&answer.body) {
        Ok(Refusal { error }) => (error.code, error.message),
        Err(_) => (String::new(), foreign::other_message(&answer.body)),
    };
    let refusal = Box::new(GuestRefusal {
        request: answer.request,
        status: answer.status,
        code,
        message: foreign::one_line(&message, MESSAGE),
    });
    match refusal.status {
        StatusCode::NOT_FOUND => GuestApiError::NotFound(refusal),
        StatusCode::CONFLICT => GuestApiError::Conflict(refusal),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            GuestApiError::Unavailable(refusal)
        }
        status if status.is_server_error() => GuestApiError::Unavailable(refusal),
        _ => GuestApiError::Refused(refusal),
    }
}
