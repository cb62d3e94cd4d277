//! An answer of a service, and the two errors that it can be: a refusal, or a body of another form.

use std::fmt;

use berth_wire::{BodyError, decode};
use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;

use crate::call::{RequestLine, service_name};
use crate::{UpgradedConnection, sanitize};

/// An answer with its request.
pub(crate) struct AdapterAnswer {
    pub(crate) request: RequestLine,
    pub(crate) status: StatusCode,
    /// The answer's request id; `-` if it has none.
    pub(crate) request_id: String,
    pub(crate) body: Bytes,
    /// The connection, if it carries another protocol now.
    pub(crate) upgraded: Option<UpgradedConnection>,
}

/// An answer with a status other than success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The service's message, on one line.
    pub message: String,
    /// The answer's request id; `-` if it has none.
    pub request_id: String,
}

impl fmt::Display for ServiceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            request,
            request_id,
            ..
        } = self;
        let (service, status) = (service_name(request.service), self.status.as_u16());
        write!(
            f,
            "{service} answers {request} with {status} ({request_id})"
        )?;
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// An answer that does not have the documented form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer to {request} ({}, {request_id}) is not {expected}: {reason}", status.as_u16())]
pub struct MalformedAnswer {
    pub request: RequestLine,
    pub status: StatusCode,
    /// The answer's request id; `-` if it has none.
    pub request_id: String,
    pub expected: &'static str,
    pub reason: BodyError,
}

impl AdapterAnswer {
    /// The answer if it is a success; else the error that `refused` makes of it.
    pub(crate) fn success_or<E>(self, refused: impl FnOnce(Self) -> E) -> Result<Self, E> {
        if self.status.is_success() {
            Ok(self)
        } else {
            Err(refused(self))
        }
    }

    /// The answer; `None` for the service's own 404, whose body is a `D`. A 404 of something else at this URL is an error,
    /// because it says nothing about the service's state.
    pub(crate) fn unless_not_found<D: DeserializeOwned, E: From<Box<MalformedAnswer>>>(
        self,
        expected: &'static str,
        refused: impl FnOnce(Self) -> E,
    ) -> Result<Option<Self>, E> {
        if self.status != StatusCode::NOT_FOUND {
            return self.success_or(refused).map(Some);
        }
        match decode::<D>(&self.body) {
            Ok(_) => Ok(None),
            Err(reason) => Err(self.malformed(expected, reason).into()),
        }
    }

    /// Parses the body of a success to a value.
    pub(crate) fn parse<T: DeserializeOwned, V, E: From<Box<MalformedAnswer>>>(
        self,
        expected: &'static str,
        into: impl FnOnce(T) -> Result<V, BodyError>,
    ) -> Result<V, E> {
        decode(&self.body)
            .and_then(into)
            .map_err(|reason| self.malformed(expected, reason).into())
    }

    fn malformed(self, expected: &'static str, reason: BodyError) -> Box<MalformedAnswer> {
        Box::new(MalformedAnswer {
            request: self.request,
            status: self.status,
            request_id: self.request_id,
            expected,
            reason,
        })
    }

    /// The refusal, with the first `longest` characters of its message.
    pub(crate) fn refusal(self, message: &str, longest: usize) -> Box<ServiceRefusal> {
        Box::new(ServiceRefusal {
            message: sanitize::one_line(message, longest),
            request: self.request,
            status: self.status,
            request_id: self.request_id,
        })
    }
}

/// Whether a refusal means "not now": the service fails, or a proxy before it says so.
pub(crate) fn is_unavailable(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
    ) || status.is_server_error()
}
