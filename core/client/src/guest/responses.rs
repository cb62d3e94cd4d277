//! Converts answers to values or errors.

use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{GuestApiError, GuestRefusal};
use crate::answer::{AdapterAnswer, is_unavailable};
use crate::{ByteStream, UpgradedConnection, sanitize};

/// Longest refusal text that is repeated, in characters.
const MESSAGE: usize = 2000;

#[derive(Deserialize)]
struct GuestRefusalBody {
    error: GuestRefusalDetail,
}

#[derive(Deserialize)]
struct GuestRefusalDetail {
    code: String,
    message: String,
}

/// Parses a 2xx answer.
pub(super) fn parsed<T: DeserializeOwned>(answer: AdapterAnswer) -> Result<T, GuestApiError> {
    let answer = require_success(answer)?;
    decode(&answer.body).map_err(|reason| malformed(answer, reason))
}

/// Returns a 2xx answer; others are errors.
pub(super) fn require_success(answer: AdapterAnswer) -> Result<AdapterAnswer, GuestApiError> {
    answer.success_or(refused)
}

/// The connection of an answer with status 101; others are errors.
pub(super) fn switched(answer: AdapterAnswer) -> Result<Box<dyn ByteStream>, GuestApiError> {
    let connection = answer.upgraded.as_ref().and_then(UpgradedConnection::take);
    match connection {
        Some(connection) if answer.status == StatusCode::SWITCHING_PROTOCOLS => Ok(connection),
        _ if answer.status.is_success() || answer.status.is_informational() => {
            let reason = BodyError::field("body", "the connection was not switched to the console");
            Err(malformed(answer, reason))
        }
        _ => Err(refused(answer)),
    }
}

/// Returns the answer; `None` for the API's own 404. A 404 of something else says nothing about the API's state.
pub(super) fn unless_not_found(
    answer: AdapterAnswer,
) -> Result<Option<AdapterAnswer>, GuestApiError> {
    if answer.status != StatusCode::NOT_FOUND {
        return require_success(answer).map(Some);
    }
    match decode::<GuestRefusalBody>(&answer.body) {
        Ok(_) => Ok(None),
        Err(reason) => Err(malformed(answer, reason)),
    }
}

fn malformed(answer: AdapterAnswer, reason: BodyError) -> GuestApiError {
    GuestApiError::Malformed {
        request: Box::new(answer.request),
        status: answer.status,
        reason,
    }
}

fn refused(answer: AdapterAnswer) -> GuestApiError {
    let (code, message) = match decode::<GuestRefusalBody>(&answer.body) {
        Ok(GuestRefusalBody { error }) => (error.code, error.message),
        Err(_) => (String::new(), sanitize::other_message(&answer.body)),
    };
    let refusal = Box::new(GuestRefusal {
        request: answer.request,
        status: answer.status,
        code,
        message: sanitize::one_line(&message, MESSAGE),
    });
    match refusal.status {
        StatusCode::NOT_FOUND => GuestApiError::NotFound(refusal),
        StatusCode::CONFLICT => GuestApiError::Conflict(refusal),
        status if is_unavailable(status) => GuestApiError::Unavailable(refusal),
        _ => GuestApiError::Refused(refusal),
    }
}
