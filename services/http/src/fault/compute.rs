//! Renders a fault in the shape of Nova: one key that names the kind of error, with the code and a message under it.

use axum::response::Response;
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::{Fault, explanation, json_response};

impl Fault {
    /// Renders the fault in the shape of Nova. It has no error codes.
    pub(crate) fn render_compute(&self) -> Response {
        let message = if self.message.is_empty() {
            explanation(self.status)
        } else {
            &self.message
        };
        let detail = json!({"code": self.status.as_u16(), "message": message});
        let document = Value::Object(
            [(kind(self.status).to_owned(), detail)]
                .into_iter()
                .collect(),
        );
        let mut response = json_response(self.status, &document);
        if let Some(allow) = &self.allow {
            response.headers_mut().insert(header::ALLOW, allow.clone());
        }
        response
    }
}

/// Nova's key for a status.
fn kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "badRequest",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "itemNotFound",
        405 => "badMethod",
        409 => "conflictingRequest",
        413 | 429 => "overLimit",
        415 => "badMediaType",
        501 => "notImplemented",
        503 => "serviceUnavailable",
        _ => "computeFault",
    }
}
