//! The error response of a request.
//!
//! A handler returns a [`Fault`]. The service layer renders it once, because only the layer knows the request id, the
//! microversion and what the caller accepts.

mod compute;
mod image;

use std::borrow::Cow;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use berth_wire::bounded;
use berth_wire::keystone::{IdentityError, IdentityErrorDocument};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;

use crate::microversion::{Microversion, MicroversionRange};
use crate::request_id::RequestId;

/// Placement's code for an error without a code of its own.
pub const UNDEFINED_CODE: &str = "placement.undefined_code";

/// Keystone's message for missing or invalid credentials.
const UNAUTHENTICATED: &str = "The request you have made requires authentication.";

/// The maximum length of a message, in characters, so that a response never repeats a long request. It is larger than
/// the schema errors, which repeat part of a body twice.
const LONGEST: usize = 4_000;

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    status: StatusCode,
    message: String,
    code: &'static str,
    allow: Option<HeaderValue>,
    range: Option<(Microversion, Microversion)>,
    /// The policy rule that refused the request.
    refused_by: Option<String>,
    /// In seconds.
    retry_after: Option<u16>,
}

impl Fault {
    /// A fault with the undefined code. A message that is too long keeps its beginning and end.
    #[must_use]
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Cow::Owned(ends) = bounded(&message, LONGEST) {
            message = ends;
        }
        Self {
            status,
            message,
            code: UNDEFINED_CODE,
            allow: None,
            range: None,
            refused_by: None,
            retry_after: None,
        }
    }

    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 401 with the wording of an identity service: no hint at what was wrong.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, UNAUTHENTICATED)
    }

    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 404 for a path, or a path at a version, that does not exist.
    #[must_use]
    pub fn no_such_route() -> Self {
        Self::not_found("")
    }

    /// 405 with the methods that the path has.
    #[must_use]
    pub fn method_not_allowed(allow: HeaderValue) -> Self {
        Self {
            allow: Some(allow),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "The method specified is not allowed for this resource.",
            )
        }
    }

    /// 406 for a version outside the range; names the range.
    #[must_use]
    pub fn not_acceptable_version(message: impl Into<String>, range: MicroversionRange) -> Self {
        Self {
            range: Some((range.min, range.max)),
            ..Self::new(StatusCode::NOT_ACCEPTABLE, message)
        }
    }

    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// 500. The message must not contain internals: log those where the fault is made.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// 503 for a lack of resources that ends soon.
    #[must_use]
    pub(crate) fn overloaded(message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::unavailable(message)
        }
    }

    /// 429 for a client that may try again after this time.
    #[must_use]
    pub fn too_many_requests(message: impl Into<String>, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(u16::try_from(retry_after.as_secs()).unwrap_or(u16::MAX)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    pub(crate) fn retry_after(&self) -> Option<HeaderValue> {
        self.retry_after.map(HeaderValue::from)
    }

    /// Sets the error code.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Names the policy rule that refused the request, for its audit record.
    #[must_use]
    pub fn by_rule(mut self, rule: &str) -> Self {
        self.refused_by = Some(rule.to_owned());
        self
    }

    pub(crate) fn refused_by(&self) -> Option<&str> {
        self.refused_by.as_deref()
    }

    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The message, without the standard sentence of the status.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `detail` of the document: the stock sentence of the status, a blank line, the message.
    fn detail(&self, asked: &ErrorContext) -> String {
        let message = self.message.replace('\n', " ");
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED => format!(
                "The method {} is not allowed for this resource. \n\n {message}",
                asked.method
            ),
            StatusCode::NOT_ACCEPTABLE => format!(
                "The resource could not be generated that was acceptable to your browser \
                 (content of type {}. \n\n {message}",
                asked.accept
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => format!(
                "The request media type {} is not supported by this server. \n\n {message}",
                asked.content_type
            ),
            status => format!("{}\n\n {message}  ", explanation(status)),
        }
    }

    /// Renders the fault in the shape of Placement.
    pub(crate) fn render(
        &self,
        asked: &ErrorContext,
        request_id: &RequestId,
        codes: ErrorCodes,
    ) -> Response {
        let detail = self.detail(asked);
        let title = self.status.canonical_reason().unwrap_or_default();
        let mut response = match asked.form {
            ErrorFormat::Json => self.as_json(title, &detail, request_id, codes),
            ErrorFormat::Html => (
                self.status,
                [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
                html(&format!("{} {title}", self.status.as_u16()), &detail),
            )
                .into_response(),
            ErrorFormat::Text => {
                let text = format!("{} {title}\n\n{detail}\n", self.status.as_u16());
                (self.status, text).into_response()
            }
        };
        if let Some(allow) = &self.allow {
            response.headers_mut().insert(header::ALLOW, allow.clone());
        }
        response
    }

    fn as_json(
        &self,
        title: &str,
        detail: &str,
        request_id: &RequestId,
        codes: ErrorCodes,
    ) -> Response {
        let document = ErrorsDocument {
            errors: [ErrorEntry {
                status: self.status.as_u16(),
                title,
                detail,
                code: (codes == ErrorCodes::Shown).then_some(self.code),
                request_id: request_id.as_str(),
                max_version: self.range.map(|(_, max)| max.to_string()),
                min_version: self.range.map(|(min, _)| min.to_string()),
            }],
        };
        json_response(self.status, &document)
    }
}

impl Fault {
    /// Renders the fault in the shape of Cyborg: a JSON document as text inside a JSON document. It has no error codes.
    pub(crate) fn render_wsme(&self) -> Response {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum WsmeMessage<'a> {
            Wsme {
                faultcode: &'static str,
                faultstring: &'a str,
                debuginfo: Option<&'a str>,
            },
            Webob {
                code: u16,
                title: &'a str,
                description: &'a str,
            },
        }
        #[derive(Serialize)]
        struct WsmeDocument {
            error_message: String,
        }
        let title = self.status.canonical_reason().unwrap_or_default();
        // A version that is not spoken is refused before the API is reached.
        let inner = if self.range.is_some() {
            WsmeMessage::Webob {
                code: self.status.as_u16(),
                title,
                description: &self.message,
            }
        } else {
            WsmeMessage::Wsme {
                faultcode: if self.status.is_server_error() {
                    "Server"
                } else {
                    "Client"
                },
                faultstring: if self.message.is_empty() {
                    title
                } else {
                    &self.message
                },
                debuginfo: None,
            }
        };
        // Texts and numbers always serialise.
        let error_message = serde_json::to_string(&inner).unwrap_or_default();
        let mut response = json_response(self.status, &WsmeDocument { error_message });
        if let Some(allow) = &self.allow {
            response.headers_mut().insert(header::ALLOW, allow.clone());
        }
        response
    }
}

impl Fault {
    /// Renders the fault in the shape of Keystone. A 401 names the URL of the identity service.
    pub(crate) fn render_keystone(&self, url: Option<&str>) -> Response {
        if self.status == StatusCode::UNAUTHORIZED && self.message == UNAUTHENTICATED {
            return unauthorized_by_keystone(url);
        }
        let message = if self.message.is_empty() {
            explanation(self.status)
        } else {
            &self.message
        };
        let document = IdentityErrorDocument {
            error: IdentityError {
                code: self.status.as_u16(),
                message: message.to_owned(),
                title: self
                    .status
                    .canonical_reason()
                    .unwrap_or_default()
                    .to_owned(),
            },
        };
        let mut response = json_response(self.status, &document);
        let headers = response.headers_mut();
        if let Some(allow) = &self.allow {
            headers.insert(header::ALLOW, allow.clone());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, challenge(url));
        }
        response
    }
}

/// Until the service layer renders it, a fault travels as an extension of an empty response.
impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Whether the request's version shows error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorCodes {
    Shown,
    Hidden,
}

/// Parts of the request that the standard sentences quote.
pub(crate) struct ErrorContext {
    method: Method,
    accept: String,
    content_type: String,
    form: ErrorFormat,
    takes_html: bool,
}

/// The format in which the caller can read an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorFormat {
    Json,
    Html,
    Text,
}

impl ErrorContext {
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Self {
        let text = |name| {
            headers
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
        };
        Self {
            method: method.clone(),
            accept: text(header::ACCEPT).unwrap_or_else(|| "application/json".to_owned()),
            content_type: text(header::CONTENT_TYPE).unwrap_or_else(|| "None".to_owned()),
            form: if admits(headers, JSON) {
                ErrorFormat::Json
            } else if admits(headers, HTML) {
                ErrorFormat::Html
            } else {
                ErrorFormat::Text
            },
            takes_html: headers.contains_key(header::ACCEPT)
                && (admits(headers, HTML) || admits(headers, ["*/*"])),
        }
    }
}

const JSON: [&str; 3] = ["*/*", "application/*", "application/json"];
const HTML: [&str; 2] = ["text/*", "text/html"];

/// Whether the `accept` header, if present, allows `application/json`.
#[must_use]
pub fn accepts_json(headers: &HeaderMap) -> bool {
    admits(headers, JSON)
}

fn admits<const N: usize>(headers: &HeaderMap, media: [&str; N]) -> bool {
    let ranges: Vec<&str> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| !range.is_empty())
        .collect();
    let admitted = |range: &&str| media.contains(&unrefused(range).unwrap_or_default());
    ranges.is_empty() || ranges.iter().any(admitted)
}

/// The media range, unless its quality is zero.
fn unrefused(range: &str) -> Option<&str> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?;
    let refused = parts.any(|parameter| {
        parameter
            .strip_prefix("q=")
            .and_then(|q| q.parse::<f32>().ok())
            .is_some_and(|q| q <= 0.0)
    });
    (!refused).then_some(media)
}

fn html(title: &str, detail: &str) -> String {
    let detail = detail
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!(
        "<html>\n <head>\n  <title>{title}</title>\n </head>\n <body>\n  <h1>{title}</h1>\n  \
         {detail}\n </body>\n</html>"
    )
}

#[derive(Serialize)]
struct ErrorsDocument<'a> {
    errors: [ErrorEntry<'a>; 1],
}

#[derive(Serialize)]
struct ErrorEntry<'a> {
    status: u16,
    title: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_version: Option<String>,
}

/// The 401 of Placement's authentication middleware, which has a shape of its own.
pub(crate) fn unauthorized() -> Response {
    #[derive(Serialize)]
    struct UnauthorizedBody {
        message: String,
        code: &'static str,
        title: &'static str,
    }
    let body = UnauthorizedBody {
        message: format!(
            "{}<br /><br />\n\n\n",
            explanation(StatusCode::UNAUTHORIZED)
        ),
        code: "401 Unauthorized",
        title: "Unauthorized",
    };
    json_response(StatusCode::UNAUTHORIZED, &body)
}

/// The 401 of keystonemiddleware, with the URL of Keystone.
pub(crate) fn unauthorized_by_keystone(url: Option<&str>) -> Response {
    let document = IdentityErrorDocument {
        error: IdentityError {
            code: 401,
            message: UNAUTHENTICATED.to_owned(),
            title: "Unauthorized".to_owned(),
        },
    };
    let mut response = json_response(StatusCode::UNAUTHORIZED, &document);
    let headers = response.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, challenge(url));
    response
}

/// The `WWW-Authenticate` header, with the URL of the identity service.
fn challenge(url: Option<&str>) -> HeaderValue {
    // A URL that is no header text is left out.
    url.and_then(|url| HeaderValue::from_str(&format!("Keystone uri=\"{url}\"")).ok())
        .unwrap_or(HeaderValue::from_static("Keystone"))
}

fn json_response(status: StatusCode, document: &impl Serialize) -> Response {
    match serde_json::to_vec(document) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        // Strings and numbers always serialise; an empty body is better than a panic.
        Err(_) => status.into_response(),
    }
}

fn explanation(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => {
            "The server could not comply with the request since it is either malformed or \
             otherwise incorrect."
        }
        401 => {
            "This server could not verify that you are authorized to access the document you \
             requested. Either you supplied the wrong credentials (e.g., bad password), or your \
             browser does not understand how to supply the credentials required."
        }
        403 => "Access was denied to this resource.",
        404 => "The resource could not be found.",
        409 => "There was a conflict when trying to complete your request.",
        413 => "The body of your request was too large for this server.",
        503 => "The server is currently unavailable. Please try again at a later time.",
        _ => "The server has either erred or is incapable of performing the requested operation.",
    }
}
