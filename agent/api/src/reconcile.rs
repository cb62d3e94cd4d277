//! Routes of the reconcile report in the admin API, and the client methods for them.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use berth_agent_instances::GuestResources;
use berth_agent_instances::reconcile::{ReconcileReport, Reconciler};
use berth_virt::VirtDriver;
use http::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::API;
use crate::client::{AdminClient, AdminClientError};
use crate::refusal::refusal;

/// Method, path and description of each route, for the generated documentation.
pub const ROUTES: &[(&str, &str, &str)] = &[
    (
        "GET",
        "/v1/reconcile",
        "Differences between guests, hypervisor, devices, accelerator requests and allocations. Nothing is changed.",
    ),
    (
        "POST",
        "/v1/reconcile",
        "Repairs the differences that can be repaired, and reports as GET does. Unfinished operations of guests then continue.",
    ),
];

/// Response of GET and POST /v1/reconcile: the differences that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReconcileBody {
    /// Version of the API, `berth/1`.
    pub api: String,
    /// Differences between the compared sources.
    pub findings: Vec<FindingBody>,
    /// Sources that could not be read, each with the reason.
    pub unknown: Vec<String>,
}

/// One difference between the compared sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingBody {
    /// Stable code of the difference, for scripts.
    pub code: String,
    /// UUID or address of the affected object.
    pub subject: String,
    /// What is done about it: `repaired`, `awaited` or `reported`.
    pub remedy: String,
    /// Seconds since the difference was first seen, rounded down.
    pub for_seconds: u64,
    /// One sentence that describes the difference and its remedy.
    pub text: String,
}

impl From<ReconcileReport> for ReconcileBody {
    fn from(found: ReconcileReport) -> Self {
        let findings = found.findings.iter().map(|(finding, age)| {
            let (remedy, text) = finding.describe(*age);
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

pub fn routes<D: VirtDriver, R: GuestResources>(reconciler: &Reconciler<D, R>) -> Router {
    Router::new()
        .route("/v1/reconcile", get(compare::<D, R>).post(repair::<D, R>))
        .with_state(reconciler.clone())
}

async fn compare<D: VirtDriver, R: GuestResources>(
    State(reconciler): State<Reconciler<D, R>>,
) -> Response {
    answer(reconciler.find_differences().await)
}

async fn repair<D: VirtDriver, R: GuestResources>(
    State(reconciler): State<Reconciler<D, R>>,
) -> Response {
    answer(reconciler.repair().await)
}

fn answer<E: std::error::Error>(found: Result<ReconcileReport, E>) -> Response {
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
    /// GET /v1/reconcile: reports the differences.
    pub async fn differences(&self) -> Result<ReconcileBody, AdminClientError> {
        self.request(Method::GET, "/v1/reconcile", Vec::new().into())
            .await
    }

    /// POST /v1/reconcile: reports the differences and repairs those that can be repaired.
    pub async fn reconcile(&self) -> Result<ReconcileBody, AdminClientError> {
        self.request(Method::POST, "/v1/reconcile", Vec::new().into())
            .await
    }
}
