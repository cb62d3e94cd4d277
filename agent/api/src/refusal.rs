//! Error responses of the admin API.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::body::{API, ErrorBody, ErrorDetail};

/// An error response with this code and message.
pub(crate) fn refusal(status: StatusCode, code: &str, message: String) -> Response {
    let error = ErrorDetail {
        code: code.to_owned(),
        message,
    };
    (
        status,
        Json(ErrorBody {
            api: API.to_owned(),
            error,
        }),
    )
        .into_response()
}
