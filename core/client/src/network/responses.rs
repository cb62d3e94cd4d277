//! Converts answers to values or errors.

use berth_wire::decode;
use berth_wire::neutron::{NeutronErrorDetail, NeutronErrorDocument};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::NetworkClientError;
use crate::answer::{AdapterAnswer, is_unavailable};
use crate::sanitize;

/// The maximum length of a refusal text, in characters.
const MESSAGE: usize = 300;

/// Parses a 2xx answer.
pub(super) fn parsed<T: DeserializeOwned>(
    answer: AdapterAnswer,
    expected: &'static str,
) -> Result<T, NetworkClientError> {
    require_success(answer)?.parse(expected, Ok)
}

/// Returns a 2xx answer; others are errors.
pub(super) fn require_success(answer: AdapterAnswer) -> Result<AdapterAnswer, NetworkClientError> {
    answer.success_or(refused)
}

/// Returns the answer; `None` for the service's own 404.
pub(super) fn unless_not_found(
    answer: AdapterAnswer,
) -> Result<Option<AdapterAnswer>, NetworkClientError> {
    answer.unless_not_found::<NeutronErrorDocument, _>("the service's error document", refused)
}

fn refused(answer: AdapterAnswer) -> NetworkClientError {
    let NeutronErrorDetail { kind, message, .. } = decode::<NeutronErrorDocument>(&answer.body)
        .map_or_else(
            |_| NeutronErrorDetail {
                kind: String::new(),
                message: sanitize::other_message(&answer.body),
                detail: String::new(),
            },
            |document| document.error,
        );
    let refusal = answer.refusal(&message, MESSAGE);
    match kind.as_str() {
        "IpAddressGenerationFailure"
        | "IpAddressGenerationFailureAllSubnets"
        | "IpAddressGenerationFailureNoMatchingSubnet" => {
            NetworkClientError::NoFreeAddress(refusal)
        }
        "IpAddressInUse" | "IpAddressAlreadyAllocated" => NetworkClientError::AddressInUse(refusal),
        "InvalidIpForNetwork" | "InvalidIpForSubnet" => NetworkClientError::InvalidAddress(refusal),
        "PortInUse" => NetworkClientError::PortInUse(refusal),
        "MacAddressInUse" => NetworkClientError::MacAddressInUse(refusal),
        "OverQuota" => NetworkClientError::OverQuota(refusal),
        "HostNotCompatibleWithFixedIps" => NetworkClientError::HostNotInSegment(refusal),
        _ => match refusal.status {
            StatusCode::UNAUTHORIZED => NetworkClientError::Unauthorized(refusal),
            StatusCode::FORBIDDEN => NetworkClientError::Forbidden(refusal),
            StatusCode::NOT_FOUND => NetworkClientError::NotFound(refusal),
            StatusCode::PRECONDITION_FAILED => NetworkClientError::Changed(refusal),
            StatusCode::CONFLICT => NetworkClientError::Conflict(refusal),
            status if is_unavailable(status) => NetworkClientError::Unavailable(refusal),
            _ => NetworkClientError::Refused(refusal),
        },
    }
}
