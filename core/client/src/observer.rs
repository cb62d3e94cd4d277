//! [`RequestObserver`]: the hook for metrics. It sees every request, including retries and logins. An immediate resend
//! on a stale kept-alive connection counts as the same request.

use std::time::Duration;

use http::{Method, StatusCode};

/// Counts requests. It is called during a call, so it must be quick and must not block.
pub trait RequestObserver: Send + Sync {
    /// One request was answered or failed.
    fn observed(&self, exchange: &HttpExchange<'_>);
}

/// One request with its outcome.
#[derive(Debug, Clone, Copy)]
pub struct HttpExchange<'a> {
    /// The service's type: `placement`, `identity`, …
    pub service: &'a str,
    pub method: &'a Method,
    /// The route's template, `/resource_providers/{uuid}/inventories` for instance: few values, fit for a label.
    pub route: &'static str,
    pub outcome: ExchangeOutcome,
    /// Bytes of the request's body.
    pub sent_bytes: usize,
    /// The size of the response body, in bytes.
    pub received_bytes: usize,
    /// From sending the first byte to receiving the last.
    pub duration: Duration,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeOutcome {
    Answered(StatusCode),
    /// No answer; the kind is [`crate::TransportError::kind`].
    Failed(&'static str),
}
