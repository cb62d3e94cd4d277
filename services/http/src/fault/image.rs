//! Renders a fault in the shape of Glance: an HTML page for callers that accept it (OpenStack's clients do), otherwise
//! JSON.

use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::json;

use super::{ErrorContext, ErrorFormat, Fault, explanation, html, json_response};

impl Fault {
    /// The response in Glance's shape.
    pub(crate) fn render_image(&self, asked: &ErrorContext) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default();
        let code = format!("{} {title}", self.status.as_u16());
        let message = if self.message.is_empty() {
            explanation(self.status)
        } else {
            &self.message
        };
        let mut response = match asked.form {
            ErrorFormat::Json if !asked.takes_html => {
                let document = json!({"message": message, "code": code, "title": title});
                json_response(self.status, &document)
            }
            ErrorFormat::Text => (self.status, format!("{code}\n\n{message}\n")).into_response(),
            ErrorFormat::Json | ErrorFormat::Html => {
                let page = html(&code, message);
                let kind = [(header::CONTENT_TYPE, "text/html; charset=UTF-8")];
                (self.status, kind, page).into_response()
            }
        };
        if let Some(allow) = &self.allow {
            response.headers_mut().insert(header::ALLOW, allow.clone());
        }
        response
    }
}
