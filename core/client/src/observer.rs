//! The hook for metrics: told of every request, retries and logins included (not of a read that was sent once more because
//! a kept connection turned out to be closed; it counts as one).

use std::time::Duration;

use http::{Method, StatusCode};

/// Who wants to count requests. Called in the middle of a call: it must be quick and must not block.
pub trait RequestObserver: Send + Sync {
    /// One request was answered or failed.
    fn observed(&self, exchange: &Exchange<'_>);
}

/// One request and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The service's type: `placement`, `identity`, …
    pub service: &'a str,
    pub method: &'a Method,
    /// The route's template, `/resource_providers/{uuid}/inventories` for instance: few values, fit for a label.
    pub route: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// Bytes of the request's body.
    pub sent_bytes: usize,
    /// Bytes of the answer's body.
    pub received_bytes: usize,
    /// From the first byte asked for to the last byte answered.
    pub duration: Duration,
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Answered(StatusCode),
    /// It was not; the kind is [`crate::TransportError::kind`].
    Failed(&'static str),
}
