//! /v2.1/limits: the limits and the usage of a project.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_quota::QuotaResource;
use serde_json::json;

use crate::microversions::{NO_IMAGE_METADATA, NO_NETWORK_LIMITS, NO_PERSONALITY};
use crate::policies::{admin, everybody};
use crate::state::{ComputeApi, ComputeOperation};

/// Show the limits of another project.
const OTHER_PROJECT: RuleDefault = admin("os_compute_api:limits:other_project");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/limits", show)
            .rule(everybody("os_compute_api:limits"))
            .other_rules(&[OTHER_PROJECT])
            .id("showLimits")
            .summary("Shows the limits and the usage of a project")
            .query(&["reserved", "tenant_id"])
            .responds("limits"),
    ]
}

const NONE: i64 = -1;

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let named = call.query.last("tenant_id");
    let other = named.filter(|project| call.caller.project_id() != Some(project));
    if other.is_some() {
        api.allow_rule(&call, OTHER_PROJECT, None)?;
    }
    let project = named.or(call.caller.project_id()).unwrap_or_default();
    let usage = api.compute.project_usage(project).await;
    let usage = usage.map_err(super::servers::fault)?;
    let (used, limit) = (&usage.used, |resource| usage.limits.of(&resource).number());
    let mut absolute = json!({
        "maxTotalInstances": limit(QuotaResource::Instances),
        "maxTotalCores": limit(QuotaResource::Cores),
        "maxTotalRAMSize": limit(QuotaResource::Ram),
        "maxTotalKeypairs": limit(QuotaResource::KeyPairs),
        "maxServerMeta": limit(QuotaResource::MetadataItems),
        "maxServerGroups": limit(QuotaResource::ServerGroups),
        "maxServerGroupMembers": limit(QuotaResource::ServerGroupMembers),
        "totalInstancesUsed": used.instances,
        "totalCoresUsed": used.cores,
        "totalRAMUsed": used.ram_mb,
        "totalServerGroupsUsed": api.used_groups(project).await?,
    });
    if !call.version.has(NO_NETWORK_LIMITS) {
        for key in [
            "maxTotalFloatingIps",
            "maxSecurityGroups",
            "maxSecurityGroupRules",
        ] {
            absolute[key] = json!(NONE);
        }
        for key in ["totalFloatingIpsUsed", "totalSecurityGroupsUsed"] {
            absolute[key] = json!(0);
        }
    }
    if !call.version.has(NO_IMAGE_METADATA) {
        absolute["maxImageMeta"] = json!(limit(QuotaResource::MetadataItems));
    }
    if !call.version.has(NO_PERSONALITY) {
        absolute["maxPersonality"] = json!(0);
        absolute["maxPersonalitySize"] = json!(0);
    }
    ApiResponse::ok(&json!({"limits": {"rate": [], "absolute": absolute}}))
}
