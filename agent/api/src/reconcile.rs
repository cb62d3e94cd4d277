//! The comparison over the agent's admin API.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use berth_agent_instances::GuestResources;
use berth_agent_instances::reconcile::{Reconciled, Reconciler};
use berth_virt::VirtDriver;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::API;
use crate::client::{AdminClient, AdminClientError};
use crate::refusal::refusal;

/// Method, path and what it does of each route, for the documentation of whoever offers them.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/v1/reconcile",
        "Differences between guests, hypervisor, devices, accelerator requests and allocations. Nothing is changed.",
    ),
    (
        "POST",
        "/v1/reconcile",
        "The same, and repairs what can be repaired. Open operations of guests then continue.",
    ),
];

/// GET and POST /v1/reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReconcileBody {
    /// The API's version, `berth/1`.
    pub api: String,
    /// The differences.
    pub findings: Vec<FindingBody>,
    /// What could not be read.
    pub unknown: Vec<String>,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingBody {
    /// A word for scripts.
    pub code: String,
    /// What it is about: a UUID or an address.
    pub subject: String,
    /// `repaired`, `awaited` or `reported`.
    pub remedy: String,
    /// For how long it has been seen, in whole seconds.
    pub for_seconds: u64,
    /// A sentence.
    pub text: String,
}

impl From<Reconciled> for ReconcileBody {
    fn from(found: Reconciled) -> Self {
        let findings = found.findings.iter().map(|(finding, age)| {
            let (remedy, text) = finding.told(*age);
            FindingBody {
                code: finding.code().to_owned(),
                subject: finding.subject(),
                remedy: remedy.as_str().to_owned(),
                for_seconds: age.as_secs(),
                text,
            }
        });
        Self {
            api: API.to_owned(),
            findings: findings.collect(),
            unknown: found.unknown,
        }
    }
}

/// The routes.
pub fn routes<D: VirtDriver, R: GuestResources>(reconciler: &Reconciler<D, R>) -> Router {
    Router::new()
        .route("/v1/reconcile", get(look::<D, R>).post(repair::<D, R>))
        .with_state(reconciler.clone())
}

async fn look<D: VirtDriver, R: GuestResources>(
    State(reconciler): State<Reconciler<D, R>>,
) -> Response {
    answer(reconciler.look().await)
}

async fn repair<D: VirtDriver, R: GuestResources>(
    State(reconciler): State<Reconciler<D, R>>,
) -> Response {
    answer(reconciler.repair().await)
}

fn answer<E: std::error::Error>(found: Result<Reconciled, E>) -> Response {
    match found {
        Ok(found) => Json(ReconcileBody::from(found)).into_response(),
        Err(error) => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            error.to_string(),
        ),
    }
}

impl AdminClient {
    /// GET /v1/reconcile: what differs.
    ///
    /// # Errors
    /// As [`AdminClient::state`].
    pub async fn differences(&self) -> Result<ReconcileBody, AdminClientError> {
        self.ask(Method::GET, "/v1/reconcile", Vec::new().into())
            .await
    }

    /// POST /v1/reconcile: what differs, and mends what can be mended.
    ///
    /// # Errors
    /// As [`AdminClient::state`].
    pub async fn reconcile(&self) -> Result<ReconcileBody, AdminClientError> {
        self.ask(Method::POST, "/v1/reconcile", Vec::new().into())
            .await
    }
}
