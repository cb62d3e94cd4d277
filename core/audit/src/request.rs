//! [`RequestAudit`]: the audit of one request, to which the services add what they learn of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use axum::extract::Request;
use http::{StatusCode, header};
use uuid::Uuid;

use crate::event::{
    AuditInitiator, AuditOutcome, AuditPeer, AuditTarget, RequestFacts, ServiceFacts, bounded,
    shown_path,
};
use crate::trail::{AuditTrail, AuditUnavailable, PendingRecord};

/// The audit of one request. Handlers find it in the extensions of the request, if the request came through a listener
/// with an audit trail. Clones share one audit.
#[derive(Debug, Clone)]
pub struct RequestAudit {
    inner: Arc<RequestAuditInner>,
}

#[derive(Debug)]
struct RequestAuditInner {
    trail: AuditTrail,
    began: Instant,
    request: RequestFacts,
    known: Mutex<ServiceFacts>,
}

impl RequestAudit {
    pub(crate) fn begin(trail: &AuditTrail, request: &Request, peer: AuditPeer) -> Self {
        let user_agent = request.headers().get(header::USER_AGENT);
        let user_agent = user_agent.map(|it| bounded(&String::from_utf8_lossy(it.as_bytes())));
        let request = RequestFacts {
            id: Uuid::new_v4(),
            time: SystemTime::now(),
            method: request.method().clone(),
            path: shown_path(request.uri()),
            user_agent,
            peer,
        };
        Self {
            inner: Arc::new(RequestAuditInner {
                trail: trail.clone(),
                began: Instant::now(),
                request,
                known: Mutex::default(),
            }),
        }
    }

    fn known(&self) -> MutexGuard<'_, ServiceFacts> {
        let known = self.inner.known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the API that received the request, for example `service/compute`.
    pub fn observe(&self, api: impl Into<String>) {
        self.known().observer = Some(api.into());
    }

    /// The API that received the request.
    #[must_use]
    pub fn observer(&self) -> String {
        let observer = self.known().observer.clone();
        observer.unwrap_or_else(|| "service".to_owned())
    }

    /// The id of the request, and the caller's global one.
    pub fn set_request_ids(&self, own: &str, global: Option<&str>) {
        let mut known = self.known();
        known.request_id = Some(own.to_owned());
        known.global_request_id = global.map(str::to_owned);
    }

    /// Names the sender.
    pub fn identify(&self, initiator: AuditInitiator) {
        self.known().initiator = Some(initiator);
    }

    /// The action, if it does not follow from the method; in CADF's words, for example `authenticate`.
    pub fn set_action(&self, action: &'static str) {
        self.known().action = Some(action);
    }

    /// Names the object of the request.
    pub fn set_target(&self, target: AuditTarget) {
        self.known().target = Some(target);
    }

    /// Names the policy rule that refused the request.
    pub fn set_refused_by(&self, rule: &str) {
        self.known().refused_by = Some(rule.to_owned());
    }

    /// Writes a record with the outcome `pending`, if requests that change something need one (`[audit] required`). Call it
    /// before anything is changed.
    ///
    /// Errors: The record could not be written. The request must be refused.
    pub async fn record_intent(&self) -> Result<(), AuditUnavailable> {
        let inner = &self.inner;
        let record = inner.trail.record_intent(&inner.request, &self.known());
        record.written().await
    }

    fn end(&self, outcome: impl FnOnce(std::time::Duration) -> AuditOutcome) -> PendingRecord {
        let inner = &self.inner;
        let outcome = outcome(inner.began.elapsed());
        let known = self.known();
        inner.trail.record_outcome(&inner.request, &known, outcome)
    }
}

/// A request in progress. If it is dropped before its response, the client went away, and the outcome is unknown.
pub(crate) struct InProgress(Option<RequestAudit>);

impl InProgress {
    pub(crate) fn of(audit: RequestAudit) -> Self {
        Self(Some(audit))
    }

    pub(crate) async fn answered(mut self, status: StatusCode) {
        if let Some(audit) = self.0.take() {
            let record = audit.end(|duration| AuditOutcome::Answered(status, duration));
            // The request has been carried out already, and the failure is logged.
            let _ = record.written().await;
        }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        if let Some(audit) = self.0.take() {
            audit.end(AuditOutcome::Unknown);
        }
    }
}
