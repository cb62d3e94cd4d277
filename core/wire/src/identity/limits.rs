//! Requests that change limits of projects: Keystone's unified limits.

use serde::{Deserialize, Serialize};

use super::resources::ProjectLimitResource;

/// The body of POST /v3/limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLimits {
    pub limits: Vec<NewLimit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLimit {
    pub service_id: String,
    pub region_id: Option<String>,
    pub project_id: Option<String>,
    pub domain_id: Option<String>,
    pub resource_name: String,
    /// -1: unlimited.
    pub resource_limit: i64,
    pub description: Option<String>,
}

/// The response to POST /v3/limits: a list without links.
#[derive(Debug, Serialize)]
pub struct CreatedLimits<'a> {
    pub limits: Vec<ProjectLimitResource<'a>>,
}

/// The body of PATCH /v3/limits/{id}.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitUpdateDocument {
    pub limit: LimitUpdate,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitUpdate {
    pub resource_limit: Option<i64>,
    pub description: Option<String>,
}

/// The response to GET /v3/limits/model.
#[derive(Debug, Serialize)]
pub struct LimitModelDocument {
    pub model: LimitModel,
}

/// How limits of projects relate to each other.
#[derive(Debug, Serialize)]
pub struct LimitModel {
    pub name: &'static str,
    pub description: &'static str,
}
