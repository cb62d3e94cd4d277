//! The refusals of the admin API.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::body::{API, ErrorBody, ErrorDetail};

/// A refusal as this API words it.
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
