//! A request as a handler sees it: version, caller, path, query and body in one value.

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use berth_wire::BodyError;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::auth::Caller;
use crate::fault::{Fault, accepts_json};
use crate::microversion::Microversion;
use crate::mount::PublicEndpoint;
use crate::prefix::Prefix;
use crate::query::Query;
use crate::request_id::RequestId;
use crate::schema::Schema;

/// How large a body may be, in bytes. The door sets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// The service that passes the request on, if its token says so. The door sets it.
#[derive(Debug, Clone)]
pub(crate) struct ServiceCaller(pub(crate) Option<Caller>);

/// One request, ready for its handler.
#[derive(Debug)]
pub struct Call {
    /// The microversion asked for.
    pub version: Microversion,
    /// Who calls. Paths that need no token have an anonymous caller without roles.
    pub caller: Caller,
    /// The service that passes the caller's request on, where it showed a token of its own (`X-Service-Token`).
    pub service: Option<Caller>,
    /// What the request is called in logs, and in the answer.
    pub request_id: RequestId,
    /// The decoded query string.
    pub query: Query,
    headers: HeaderMap,
    prefix: Prefix,
    public: Option<PublicEndpoint>,
    path: Vec<(String, String)>,
    body: Bytes,
}

impl Call {
    /// The part of the path with this name, decoded.
    pub fn path(&self, name: &str) -> Result<&str, Fault> {
        self.path
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .ok_or_else(Fault::no_such_route)
    }

    /// Refuses a caller who does not accept JSON.
    pub fn check_accept(&self) -> Result<(), Fault> {
        if accepts_json(&self.headers) {
            return Ok(());
        }
        Err(Fault::new(
            StatusCode::NOT_ACCEPTABLE,
            "Only application/json is provided",
        ))
    }

    /// Refuses a body that does not say it is JSON.
    pub fn require_json(&self) -> Result<(), Fault> {
        let given = self
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(|value| value.split(';').next().unwrap_or_default().trim())
            .filter(|media| !media.is_empty())
            .unwrap_or("None");
        if given.eq_ignore_ascii_case("application/json") {
            return Ok(());
        }
        Err(Fault::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("The media type {given} is not supported, use application/json"),
        ))
    }

    /// The body as JSON of the schema's shape.
    pub fn json(&self, schema: &Schema) -> Result<Value, Fault> {
        json(&self.body, schema)
    }

    /// The body as a typed value, after the schema admitted it.
    pub fn body<T: DeserializeOwned>(&self, schema: &Schema) -> Result<T, Fault> {
        read_body(&self.body, schema)
    }

    /// The body as a typed value, where no schema stands before it.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        berth_wire::decode(&self.body).map_err(|error| {
            invalid(&match error {
                // A caller knows what it sent, and a password may be in it.
                BodyError::NotJson { .. } => error.without_values(),
                BodyError::Field { .. } => error.to_string(),
            })
        })
    }

    /// The body as a typed value, where any of it may be a secret: no value of it is repeated.
    pub fn secret<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        berth_wire::decode(&self.body).map_err(|error| invalid(&error.without_values()))
    }

    /// Refuses a query string that is not of the schema's shape.
    pub fn check_query(&self, schema: &Schema) -> Result<(), Fault> {
        schema.check(&self.query.to_json()).map_err(|violation| {
            Fault::bad_request(format!("Invalid query string parameters: {violation}"))
        })
    }

    /// The text of a header; none where there is none, or one that is no text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A path of this service as its callers write it: behind the prefix, where there is one.
    #[must_use]
    pub fn href(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Whether the service stands below a path of a listener that it shares.
    #[must_use]
    pub fn is_below_prefix(&self) -> bool {
        self.prefix != Prefix::default()
    }

    /// A path of this service as a URL, where somebody says which host it is on: the listener, else the request; else the path.
    #[must_use]
    pub fn absolute(&self, path: &str) -> String {
        absolute(&self.headers, self.public.as_ref(), &self.prefix, path)
    }
}

fn invalid(reason: &str) -> Fault {
    Fault::bad_request(format!("JSON does not validate: {reason}"))
}

/// A path behind the prefix as a URL, where the listener or the headers name the host; else the path.
pub(crate) fn absolute(
    headers: &HeaderMap,
    public: Option<&PublicEndpoint>,
    prefix: &Prefix,
    path: &str,
) -> String {
    if let Some(PublicEndpoint(url)) = public {
        return format!("{url}{prefix}{path}");
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("host") {
        None => format!("{prefix}{path}"),
        Some(host) => {
            let scheme = text("x-forwarded-proto").unwrap_or("http");
            format!("{scheme}://{host}{prefix}{path}")
        }
    }
}

/// A body as a typed value, after the schema admitted it: [`Call::body`] of a body that no connection brought.
pub fn read_body<T: DeserializeOwned>(body: &[u8], schema: &Schema) -> Result<T, Fault> {
    // Most bodies are as they should be: those are read without a tree of values in between.
    if schema.admits(body)
        && let Ok(body) = serde_json::from_slice(body)
    {
        return Ok(body);
    }
    let value = json(body, schema)?;
    serde_json::from_value(value)
        .map_err(|error| Fault::bad_request(format!("JSON does not validate: {error}")))
}

fn json(body: &[u8], schema: &Schema) -> Result<Value, Fault> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Fault::bad_request(format!("Malformed JSON: {error}")))?;
    schema
        .check(&value)
        .map_err(|violation| Fault::bad_request(format!("JSON does not validate: {violation}")))?;
    Ok(value)
}

impl<S: Send + Sync> FromRequest<S> for Call {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        let (mut parts, body) = request.into_parts();
        let path = RawPathParams::from_request_parts(&mut parts, state)
            .await
            .map_err(|_| Fault::no_such_route())?
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let extensions = &mut parts.extensions;
        // The door puts them all there; a router without a door is a mistake of the house.
        let behind = |thing: &str| Fault::internal(format!("no {thing}: the router has no door"));
        let version = extensions.remove().ok_or_else(|| behind("microversion"))?;
        let caller = extensions.remove().ok_or_else(|| behind("caller"))?;
        let ServiceCaller(service) = extensions.remove().ok_or_else(|| behind("service"))?;
        let request_id = extensions
            .get::<RequestId>()
            .cloned()
            .ok_or_else(|| behind("request id"))?;
        let BodyLimit(limit) = extensions.remove().ok_or_else(|| behind("body limit"))?;
        Ok(Self {
            version,
            caller,
            service,
            request_id,
            query: Query::parse(parts.uri.query().unwrap_or_default())?,
            body: read(body, limit).await?,
            headers: parts.headers,
            prefix: extensions.remove().unwrap_or_default(),
            public: extensions.remove(),
            path,
        })
    }
}

async fn read(body: axum::body::Body, limit: usize) -> Result<Bytes, Fault> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Fault::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body is larger than {limit} bytes."),
        )),
        // What the connection says of it: that it took too long, or that it broke.
        Err(error) => Err(Fault::bad_request(format!(
            "The body did not come: {error}."
        ))),
    }
}
