//! /v2.1/os-quota-class-sets/{class}: the default quotas of projects. As in Nova, they are shown for each name of a class,
//! and no project uses another class than `default`. They are options (`[quota]`), so no request changes them.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_quota::QuotaResource;
use serde_json::{Map, json};

use super::quota_sets::without_effect;
use crate::microversions::QUOTA_CLASS_GROUPS;
use crate::policies::admin;
use crate::state::{ComputeApi, ComputeOperation};

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-quota-class-sets/{class}", show)
            .rule(admin("os_compute_api:os-quota-class-sets:show"))
            .extension("os-quota-class-sets", "QuotaClasses")
            .id("showQuotaClassSet")
            .summary("Shows the default quotas, as those of a quota class")
            .responds("quota_class_set"),
    ]
}

/// Quotas of versions from [`QUOTA_CLASS_GROUPS`] on.
const OF_GROUPS: [QuotaResource; 2] = [
    QuotaResource::ServerGroupMembers,
    QuotaResource::ServerGroups,
];

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let limits = &api.compute.inner.options.quotas;
    let has_groups = call.version.has(QUOTA_CLASS_GROUPS);
    let shown = limits.all();
    let shown = shown.filter(|(resource, _)| has_groups || !OF_GROUPS.contains(resource));
    let mut set = Map::new();
    for (resource, limit) in shown {
        set.insert(resource.to_string(), json!(limit.number()));
    }
    for (key, limit) in without_effect(&call, QUOTA_CLASS_GROUPS) {
        set.insert(key.to_owned(), json!(limit));
    }
    set.insert("id".to_owned(), json!(call.path("class")?));
    ApiResponse::ok(&json!({ "quota_class_set": set }))
}
