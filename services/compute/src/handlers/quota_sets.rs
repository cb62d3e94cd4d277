//! /v2.1/os-quota-sets/{project}: the quotas of a project. The API itself limits only metadata; a quota hook does not
//! report numbers.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Map, Value, json};

use super::servers::fault;
use crate::microversions::{NO_NETWORK_LIMITS, NO_PERSONALITY};
use crate::policies::{everybody, reader};
use crate::quota::QuotaAmounts;
use crate::servers::{MOST_METADATA, ServerError};
use crate::state::{ComputeApi, ComputeOperation};

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-quota-sets/{project}", show)
            .rule(reader("os_compute_api:os-quota-sets:show"))
            .extension("os-quota-sets", "Quotas")
            .id("showQuotaSet")
            .summary("Shows the quotas of a project")
            .query(&["user_id"])
            .responds("quota_set"),
        ComputeOperation::get("/v2.1/os-quota-sets/{project}/detail", detail)
            .rule(reader("os_compute_api:os-quota-sets:detail"))
            .id("showQuotaSetDetail")
            .summary("Shows the quotas and the usage of a project")
            .query(&["user_id"])
            .responds("quota_set"),
        ComputeOperation::get("/v2.1/os-quota-sets/{project}/defaults", defaults)
            .rule(everybody("os_compute_api:os-quota-sets:defaults"))
            .id("showQuotaSetDefaults")
            .summary("Shows the default quotas of projects")
            .responds("quota_set"),
    ]
}

const NONE: i64 = -1;

/// Quotas of all versions.
const ALWAYS: [&str; 6] = [
    "cores",
    "instances",
    "key_pairs",
    "ram",
    "server_group_members",
    "server_groups",
];

/// Quotas of versions with network limits.
const OF_NETWORKS: [&str; 4] = [
    "fixed_ips",
    "floating_ips",
    "security_group_rules",
    "security_groups",
];

/// Quotas of versions with file injection.
const OF_FILES: [&str; 3] = [
    "injected_file_content_bytes",
    "injected_file_path_bytes",
    "injected_files",
];

/// Builds a quota set; `form` builds each entry.
fn set(call: &ApiRequest, project: &str, form: impl Fn(&str, i64) -> Value) -> Value {
    let mut set = Map::new();
    let mut add = |keys: &[&str]| {
        for key in keys {
            set.insert((*key).to_owned(), form(key, NONE));
        }
    };
    add(&ALWAYS);
    if !call.version.has(NO_NETWORK_LIMITS) {
        add(&OF_NETWORKS);
    }
    if !call.version.has(NO_PERSONALITY) {
        add(&OF_FILES);
    }
    let metadata = i64::try_from(MOST_METADATA).unwrap_or(i64::MAX);
    let items = "metadata_items";
    set.insert(items.to_owned(), form(items, metadata));
    set.insert("id".to_owned(), json!(project));
    json!({ "quota_set": set })
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let project = call.path("project")?;
    api.allow_in(&call, project)?;
    ApiResponse::ok(&set(&call, project, |_, limit| json!(limit)))
}

async fn defaults(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let project = call.path("project")?;
    ApiResponse::ok(&set(&call, project, |_, limit| json!(limit)))
}

async fn detail(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let project = call.path("project")?;
    api.allow_in(&call, project)?;
    let used = api.used(project).await.map_err(fault)?;
    let groups = api.used_groups(project).await?;
    let in_use = |key: &str| match key {
        "instances" => used.instances,
        "cores" => used.cores,
        "ram" => used.ram_mb,
        "server_groups" => groups,
        _ => 0,
    };
    let form = |key: &str, limit| json!({"in_use": in_use(key), "limit": limit, "reserved": 0});
    ApiResponse::ok(&set(&call, project, form))
}

impl ComputeApi {
    pub(super) async fn used(&self, project: &str) -> Result<QuotaAmounts, ServerError> {
        self.compute.used(project).await
    }

    pub(super) async fn used_groups(&self, project: &str) -> Result<u64, Fault> {
        let groups = self.compute.inner.hosts.groups(Some(project)).await;
        let count = groups.map_err(super::hosts::group_fault)?.len();
        Ok(u64::try_from(count).unwrap_or(u64::MAX))
    }
}
