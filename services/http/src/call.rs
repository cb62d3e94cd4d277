//! The request that a handler receives: version, caller, path, query and body in one value.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use berth_audit::AuditInitiator;
use berth_serve::RequestBodyError;
use berth_wire::BodyError;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::audit::{self, RequestAudit};
use crate::auth::Caller;
use crate::client_address::client_address;
use crate::fault::{Fault, accepts_json};
use crate::microversion::Microversion;
use crate::mount::{PublicEndpoint, WithoutInternalRoutes};
use crate::operation::{DeclaredOperation, LARGE_BODY};
use crate::policy::Policy;
use crate::prefix::Prefix;
use crate::query::QueryString;
use crate::request_id::RequestId;
use crate::schema::{BodySchema, normal_uuid};

/// What is checked before and while a body is read. The service layer sets it.
#[derive(Debug, Clone)]
pub(crate) struct BodyChecks {
    /// The maximum size of a body, in bytes, of operations that declare no larger one.
    pub(crate) limit: usize,
    pub(crate) policy: Arc<Policy>,
}

/// The service that forwards the request on behalf of its caller, if it sent a service token. The
/// service layer sets it.
#[derive(Debug, Clone)]
pub(crate) struct CallingService(pub(crate) Option<Caller>);

/// One request, ready for its handler.
#[derive(Debug)]
pub struct ApiRequest {
    pub version: Microversion,
    /// The authenticated caller. Routes that need no token have an anonymous caller without roles.
    pub caller: Caller,
    /// The service that forwards the request, if it sent a token of its own (`X-Service-Token`).
    pub service: Option<Caller>,
    /// The id of the request in logs and in the response.
    pub request_id: RequestId,
    /// The client's address ([`client_address`]).
    pub client_address: Option<IpAddr>,
    /// The decoded query string.
    pub query: QueryString,
    headers: HeaderMap,
    prefix: Prefix,
    public: Option<PublicEndpoint>,
    operation: DeclaredOperation,
    path: Vec<(String, String)>,
    body: Bytes,
    audit: Option<RequestAudit>,
}

/// UUIDs are stored in lower case with dashes, and clients may write them otherwise.
fn path_value(name: &str, value: &str) -> String {
    let is_uuid = matches!(name, "uuid" | "consumer_uuid");
    let normal = is_uuid.then(|| normal_uuid(value)).flatten();
    normal.unwrap_or_else(|| value.to_owned())
}

impl ApiRequest {
    /// The part of the path with this name, decoded.
    pub fn path(&self, name: &str) -> Result<&str, Fault> {
        self.path
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .ok_or_else(Fault::no_such_route)
    }

    /// The policy rule that the operation declares.
    pub fn rule(&self) -> Result<&'static str, Fault> {
        let rule = self.operation.rule;
        rule.ok_or_else(|| Fault::internal("the operation declares no policy rule"))
    }

    /// Refuses the account of a host, for objects that belong to no host.
    pub fn refuse_host_account(&self) -> Result<(), Fault> {
        match self.caller.only_host() {
            None => Ok(()),
            Some(host) => Err(Fault::forbidden(format!(
                "The account of host {host} may change only what belongs to this host: log in as a user or as a service of the \
                 cloud."
            ))),
        }
    }

    /// The audit of the request; `None` for calls inside this process.
    #[must_use]
    pub fn audit(&self) -> Option<&RequestAudit> {
        self.audit.as_ref()
    }

    /// Records that this caller sent the request: for a login, which has no token.
    pub fn identify(&self, caller: &Caller, credential: &'static str) {
        if let Some(audit) = &self.audit {
            audit.identify(AuditInitiator {
                credential: Some(credential),
                ..audit::initiator(caller)
            });
        }
    }

    /// Refuses a caller that does not accept JSON.
    pub fn check_accept(&self) -> Result<(), Fault> {
        if accepts_json(&self.headers) {
            return Ok(());
        }
        Err(Fault::new(
            StatusCode::NOT_ACCEPTABLE,
            "Only application/json is provided",
        ))
    }

    /// Refuses a body with another content type than JSON.
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
    pub fn json(&self, schema: &BodySchema) -> Result<Value, Fault> {
        json(&self.body, schema)
    }

    /// Parses the body after the schema accepted it.
    pub fn body<T: DeserializeOwned>(&self, schema: &BodySchema) -> Result<T, Fault> {
        read_body(&self.body, schema)
    }

    /// Parses the body without a schema.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        berth_wire::decode(&self.body).map_err(|error| {
            invalid(&match error {
                // The body may contain a password, so the error must not repeat its values.
                BodyError::NotJson { .. } => error.without_values(),
                BodyError::Field { .. } => error.to_string(),
            })
        })
    }

    /// Parses a body that may contain secrets: errors repeat no value of it.
    pub fn secret<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        berth_wire::decode(&self.body).map_err(|error| invalid(&error.without_values()))
    }

    /// Refuses a query string that is not of the schema's shape.
    pub fn check_query(&self, schema: &BodySchema) -> Result<(), Fault> {
        schema.check(&self.query.to_json()).map_err(|violation| {
            Fault::bad_request(format!("Invalid query string parameters: {violation}"))
        })
    }

    /// The text of a header; `None` if it is missing or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A path of this service as clients write it: with the prefix, if there is one.
    #[must_use]
    pub fn href(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Whether the service shares a listener and is mounted below a path of it.
    #[must_use]
    pub fn is_below_prefix(&self) -> bool {
        self.prefix != Prefix::default()
    }

    /// A path of this service as a URL, if the request came over TCP; else the path alone.
    #[must_use]
    pub fn absolute(&self, path: &str) -> String {
        absolute(self.public.as_ref(), &self.prefix, path)
    }
}

fn invalid(reason: &str) -> Fault {
    Fault::bad_request(format!("JSON does not validate: {reason}"))
}

/// A path behind the prefix as a URL, if that of the listener is known; else the path alone.
pub(crate) fn absolute(public: Option<&PublicEndpoint>, prefix: &Prefix, path: &str) -> String {
    let url = public.map_or("", |PublicEndpoint(url)| url);
    format!("{url}{prefix}{path}")
}

/// Validates and parses a body, like [`ApiRequest::body`], for callers that have no request.
pub fn read_body<T: DeserializeOwned>(body: &[u8], schema: &BodySchema) -> Result<T, Fault> {
    // Most bodies are valid: parse those without building a tree of values first.
    if schema.admits(body)
        && let Ok(body) = serde_json::from_slice(body)
    {
        return Ok(body);
    }
    let value = json(body, schema)?;
    serde_json::from_value(value)
        .map_err(|error| Fault::bad_request(format!("JSON does not validate: {error}")))
}

fn json(body: &[u8], schema: &BodySchema) -> Result<Value, Fault> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Fault::bad_request(format!("Malformed JSON: {error}")))?;
    schema
        .check(&value)
        .map_err(|violation| Fault::bad_request(format!("JSON does not validate: {violation}")))?;
    Ok(value)
}

impl<S: Send + Sync> FromRequest<S> for ApiRequest {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        let (mut parts, body) = request.into_parts();
        let path: Vec<(String, String)> = RawPathParams::from_request_parts(&mut parts, state)
            .await
            .map_err(|_| Fault::no_such_route())?
            .iter()
            .map(|(name, value)| (name.to_owned(), path_value(name, value)))
            .collect();
        let extensions = &mut parts.extensions;
        // The service layer inserts all of these; a router without it is a programming error.
        let missing =
            |thing: &str| Fault::internal(format!("no {thing}: the router has no service layer"));
        let version: Microversion = extensions.remove().ok_or_else(|| missing("microversion"))?;
        let caller = extensions.remove().ok_or_else(|| missing("caller"))?;
        let CallingService(service) = extensions.remove().ok_or_else(|| missing("service"))?;
        let request_id = extensions
            .get::<RequestId>()
            .cloned()
            .ok_or_else(|| missing("request id"))?;
        let hides_internal = extensions.get::<WithoutInternalRoutes>().is_some();
        let checks: BodyChecks = extensions.remove().ok_or_else(|| missing("body checks"))?;
        let operation: DeclaredOperation = extensions.remove().unwrap_or_default();
        let audit: Option<RequestAudit> = extensions.remove();
        if let Some(audit) = &audit {
            operation.add_to(audit, &path);
            // Nothing has been changed yet: only handlers change anything.
            let recorded = audit.record_intent().await;
            recorded.map_err(|unavailable| Fault::unavailable(unavailable.to_string()))?;
        }
        let mut call = Self {
            version,
            caller,
            service,
            request_id,
            client_address: client_address(extensions),
            query: QueryString::parse(parts.uri.query().unwrap_or_default())?,
            body: Bytes::new(),
            headers: parts.headers,
            prefix: extensions.remove().unwrap_or_default(),
            public: extensions.remove(),
            operation,
            path,
            audit,
        };
        let is_too_new = call.operation.since.is_some_and(|it| !version.has(it));
        if is_too_new || (hides_internal && call.operation.is_internal) {
            return Err(Fault::no_such_route());
        }
        if body.is_end_stream() {
            return Ok(call);
        }
        // A caller without the right costs no memory. The handler checks the rule again, for the object's project.
        if call.operation.rule.is_some() {
            checks.policy.allow(&call, None)?;
        }
        let limit = match call.operation.has_large_body {
            true => checks.limit.max(LARGE_BODY),
            false => checks.limit,
        };
        call.body = match call.operation.body_deadline {
            None => read(body, limit).await?,
            Some(deadline) => timeout(deadline, read(body, limit))
                .await
                .map_err(|_| late(deadline))??,
        };
        Ok(call)
    }
}

fn late(deadline: Duration) -> Fault {
    Fault::bad_request(format!(
        "The body did not come: it is incomplete after {deadline:?}."
    ))
}

async fn read(body: axum::body::Body, limit: usize) -> Result<Bytes, Fault> {
    let mut body = Limited::new(body, limit);
    // One buffer: a list of many small parts would need far more memory than the body.
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unread(&*error, limit))?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes.freeze())
}

/// The fault of a body that could not be read.
fn unread(error: &(dyn Error + Send + Sync + 'static), limit: usize) -> Fault {
    if error.is::<http_body_util::LengthLimitError>() {
        let message = format!("The body is larger than {limit} bytes.");
        return Fault::new(StatusCode::PAYLOAD_TOO_LARGE, message);
    }
    if let Some(message) = memory_shortage(error) {
        return Fault::overloaded(message);
    }
    // The connection failed, or the body came too slowly.
    Fault::bad_request(format!("The body did not come: {error}."))
}

/// The message if the listener has no memory for the body.
fn memory_shortage(error: &(dyn Error + Send + Sync + 'static)) -> Option<&'static str> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref() {
            Some(RequestBodyError::NoMemory) => {
                return Some("The request bodies of all clients need too much memory now.");
            }
            Some(RequestBodyError::ShareUsed) => {
                return Some(
                    "The request bodies of your account need too much memory now: send fewer at the same time.",
                );
            }
            Some(RequestBodyError::Late { .. } | RequestBodyError::Broken(_)) | None => {}
        }
        cause = error.source();
    }
    None
}
