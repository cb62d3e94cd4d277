//! /v2.1/limits: the limits of a project. All are unlimited, because a quota hook does not report numbers.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use serde_json::json;

use crate::microversions::{NO_IMAGE_METADATA, NO_NETWORK_LIMITS, NO_PERSONALITY};
use crate::policies::{admin, everybody};
use crate::servers::MOST_METADATA;
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
    let used = api.used(project).await.map_err(super::servers::fault)?;
    let mut absolute = json!({
        "maxTotalInstances": NONE,
        "maxTotalCores": NONE,
        "maxTotalRAMSize": NONE,
        "maxTotalKeypairs": NONE,
        "maxServerMeta": MOST_METADATA,
        "maxServerGroups": NONE,
        "maxServerGroupMembers": NONE,
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
        absolute["maxImageMeta"] = json!(MOST_METADATA);
    }
    if !call.version.has(NO_PERSONALITY) {
        absolute["maxPersonality"] = json!(0);
        absolute["maxPersonalitySize"] = json!(0);
    }
    ApiResponse::ok(&json!({"limits": {"rate": [], "absolute": absolute}}))
}
