//! /v2.1/os-quota-sets/{project}: what a project may have. The API itself limits nothing but a server's metadata; what a quota hook
//! says cannot be told in numbers.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use serde_json::{Map, Value, json};

use super::servers::fault;
use crate::microversions::{NO_NETWORK_LIMITS, NO_PERSONALITY};
use crate::policies;
use crate::quota::QuotaAmounts;
use crate::router::Api;
use crate::servers::{MOST_METADATA, ServerError};

/// What stands for no limit.
const NONE: i64 = -1;

/// What the sets of all versions have.
const ALWAYS: [&str; 6] = [
    "cores",
    "instances",
    "key_pairs",
    "ram",
    "server_group_members",
    "server_groups",
];

/// What they had while Nova had networks.
const OF_NETWORKS: [&str; 4] = [
    "fixed_ips",
    "floating_ips",
    "security_group_rules",
    "security_groups",
];

/// What they had while files were put into guests.
const OF_FILES: [&str; 3] = [
    "injected_file_content_bytes",
    "injected_file_path_bytes",
    "injected_files",
];

/// A set, each limit in this form.
fn set(call: &Call, project: &str, form: impl Fn(&str, i64) -> Value) -> Value {
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

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let project = call.path("project")?;
    api.allow_in(&call, policies::QUOTA_SHOW, project)?;
    Answer::ok(&set(&call, project, |_, limit| json!(limit)))
}

pub(crate) async fn defaults(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::QUOTA_DEFAULTS)?;
    let project = call.path("project")?;
    Answer::ok(&set(&call, project, |_, limit| json!(limit)))
}

pub(crate) async fn detail(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let project = call.path("project")?;
    api.allow_in(&call, policies::QUOTA_DETAIL, project)?;
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
    Answer::ok(&set(&call, project, form))
}

impl Api {
    /// What a project has.
    pub(super) async fn used(&self, project: &str) -> Result<QuotaAmounts, ServerError> {
        self.compute.used(project).await
    }

    /// How many server groups a project has.
    pub(super) async fn used_groups(&self, project: &str) -> Result<u64, Fault> {
        let groups = self.compute.inner.hosts.groups(Some(project)).await;
        let count = groups.map_err(super::hosts::group_fault)?.len();
        Ok(u64::try_from(count).unwrap_or(u64::MAX))
    }
}
