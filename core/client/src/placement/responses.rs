//! Converts answers to values or errors.

use berth_wire::placement::{ErrorCode, ErrorDocument};
use berth_wire::{BodyError, decode};
use http::StatusCode;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{PlacementError, PlacementRefusal};
use crate::answer::{AdapterAnswer, is_unavailable};
use crate::keystone::Account;
use crate::sanitize;

/// Longest refusal text that is repeated, in characters.
const MESSAGE: usize = 500;

/// Parses a 2xx answer to a model value.
pub(super) fn parsed<T: DeserializeOwned, V>(
    answer: AdapterAnswer,
    expected: &'static str,
    into: impl FnOnce(T) -> Result<V, BodyError>,
) -> Result<V, PlacementError> {
    require_success(answer)?.parse(expected, into)
}

/// Whether something else than Placement may have answered: a web server's page, another service's 401 or 404.
pub(super) fn is_doubtful(answer: &AdapterAnswer) -> bool {
    let is_foreign = || decode::<ErrorDocument>(&answer.body).is_err();
    match answer.status {
        StatusCode::UNAUTHORIZED => is_foreign(),
        // Placement has all of its lists, so a list that it does not find is below a wrong path.
        StatusCode::NOT_FOUND => !answer.request.route.contains('{') || is_foreign(),
        status => status.is_success() && !answer.body.is_empty() && !is_json(&answer.body),
    }
}

/// Whether a body is one of another service: JSON, or a page.
pub(super) fn is_document(body: &[u8]) -> bool {
    let is_page = |text: &str| text.trim_start().starts_with('<');
    std::str::from_utf8(body).is_ok_and(is_page) || is_json(body)
}

fn is_json(body: &[u8]) -> bool {
    decode::<IgnoredAny>(body).is_ok()
}

/// Returns a 2xx answer; others are errors.
pub(super) fn require_success(answer: AdapterAnswer) -> Result<AdapterAnswer, PlacementError> {
    answer.success_or(refused)
}

/// Returns the answer; `None` for Placement's own 404.
pub(super) fn unless_not_found(
    answer: AdapterAnswer,
) -> Result<Option<AdapterAnswer>, PlacementError> {
    answer.unless_not_found::<ErrorDocument, _>("Placement's error document", refused)
}

fn refused(answer: AdapterAnswer) -> PlacementError {
    let document = decode::<ErrorDocument>(&answer.body).ok();
    let errors = document.map(|document| document.errors).unwrap_or_default();
    let range = errors
        .first()
        .and_then(|error| Some((error.min_version.clone()?, error.max_version.clone()?)));
    let message = match errors.first() {
        Some(error) => error.message().to_owned(),
        None => sanitize::other_message(&answer.body),
    };
    let refusal = Box::new(PlacementRefusal {
        request: answer.request,
        status: answer.status,
        codes: errors.into_iter().filter_map(|error| error.code).collect(),
        message: sanitize::one_line(&message, MESSAGE),
        request_id: answer.request_id,
    });
    sort(refusal, range)
}

fn sort(refusal: Box<PlacementRefusal>, range: Option<(String, String)>) -> PlacementError {
    match refusal.status {
        // The usual sentence is about browsers and passwords.
        StatusCode::UNAUTHORIZED => PlacementError::Unauthorized {
            refusal: Box::new(PlacementRefusal {
                message: String::new(),
                ..*refusal
            }),
            account: Account::default(),
        },
        StatusCode::FORBIDDEN => PlacementError::Forbidden {
            refusal,
            account: Account::default(),
        },
        StatusCode::NOT_ACCEPTABLE => match range {
            Some((min_version, max_version)) => PlacementError::TooOld {
                refusal,
                min_version,
                max_version,
            },
            None => PlacementError::Refused(refusal),
        },
        StatusCode::CONFLICT => conflict(refusal),
        StatusCode::NOT_FOUND => PlacementError::NotFound(refusal),
        StatusCode::BAD_REQUEST if refusal.has(&ErrorCode::ProviderNotFound) => {
            PlacementError::NotFound(refusal)
        }
        status if is_unavailable(status) => PlacementError::Unavailable(refusal),
        _ => PlacementError::Refused(refusal),
    }
}

fn conflict(refusal: Box<PlacementRefusal>) -> PlacementError {
    let code = refusal.codes.first().unwrap_or(&ErrorCode::Undefined);
    match code {
        ErrorCode::ConcurrentUpdate => PlacementError::Conflict(refusal),
        ErrorCode::InventoryInUse => PlacementError::InventoryInUse(refusal),
        ErrorCode::DuplicateName => PlacementError::NameTaken(refusal),
        ErrorCode::ProviderInUse => PlacementError::ProviderInUse(refusal),
        ErrorCode::CannotDeleteParent => PlacementError::HasChildren(refusal),
        // For allocations this means "does not fit"; elsewhere only a lost race remains.
        _ if refusal.request.route.starts_with("/allocations")
            || refusal.request.route == "/reshaper" =>
        {
            PlacementError::Refused(refusal)
        }
        _ => PlacementError::Conflict(refusal),
    }
}
