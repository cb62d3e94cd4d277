//! The successful response of a handler: status, JSON body and headers.

use std::time::SystemTime;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::call::ApiRequest;
use crate::fault::Fault;

/// A status, perhaps a JSON body, perhaps some headers.
#[derive(Debug)]
pub struct ApiResponse {
    status: StatusCode,
    body: Option<Bytes>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl ApiResponse {
    /// 200 with a body.
    pub fn ok(document: &impl Serialize) -> Result<Self, Fault> {
        Self::with_body(StatusCode::OK, document)
    }

    /// A status with a body.
    pub fn with_body(status: StatusCode, document: &impl Serialize) -> Result<Self, Fault> {
        let answer = Self::written(serde_json::to_vec(document))?;
        Ok(Self { status, ..answer })
    }

    /// 200 with a body that the caller has already serialised.
    pub fn written(document: Result<Vec<u8>, serde_json::Error>) -> Result<Self, Fault> {
        let body = document.map_err(|error| {
            tracing::error!(%error, "response cannot be serialised");
            Fault::internal("the response could not be serialised")
        })?;
        Ok(Self::json(body.into()))
    }

    /// 200 with a body that is JSON already.
    #[must_use]
    pub fn json(body: Bytes) -> Self {
        Self {
            status: StatusCode::OK,
            body: Some(body),
            headers: Vec::new(),
        }
    }

    /// A status without a body.
    #[must_use]
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            body: None,
            headers: Vec::new(),
        }
    }

    #[must_use]
    pub fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Adds `last-modified`, and `cache-control: no-cache`. The time must be in the years 1970 to 9999.
    #[must_use]
    pub fn modified(mut self, time: SystemTime) -> Self {
        let no_cache = HeaderValue::from_static("no-cache");
        self.headers.push((header::CACHE_CONTROL, no_cache));
        let time = httpdate::fmt_http_date(time);
        self.with_header(header::LAST_MODIFIED, &time)
    }

    /// Adds a `location` header. The URL is absolute if the request came over TCP.
    #[must_use]
    pub fn located(self, call: &ApiRequest, path: &str) -> Self {
        let location = call.absolute(path);
        self.with_header(header::LOCATION, &location)
    }

    /// Adds a header. A value that is not valid header text is ignored.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        // A value that is not header text (an odd host name) is left out; the body is complete without it.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }
}

impl IntoResponse for ApiResponse {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        if let Some(body) = self.body {
            *response.body_mut() = Body::from(body);
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
        }
        response.headers_mut().extend(self.headers);
        response
    }
}
