//! /v2.1/os-hypervisors: the compute nodes of hosts, for operators.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_hosts::{ComputeHost, ComputeNode, HostStateError, ServiceStatus};
use berth_http::fields::{boolean, bounded};
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_model::NodeName;
use berth_wire::host_state::NodeStateBody;
use http::StatusCode;
use serde_json::{Value, json};

use super::hosts::{host_fault, is_up};
use super::server_query::wrong;
use super::services::{number_of, uuid_of};
use crate::microversions::{CPU_INFO_OBJECT, HYPERVISOR_PAGES, SERVICE_UUIDS, STRICT};
use crate::paging::{PageQuery, check_keys, next};
use crate::policies::admin;
use crate::servers::ServerOnNode;
use crate::state::{ComputeApi, ComputeOperation};

/// The query keys of lists and of a single hypervisor.
const LIST: [&str; 4] = [
    "limit",
    "marker",
    "hypervisor_hostname_pattern",
    "with_servers",
];
const SHOW: [&str; 1] = ["with_servers"];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-hypervisors", list)
            .rule(admin("os_compute_api:os-hypervisors:list"))
            .extension("os-hypervisors", "Hypervisors")
            .id("listHypervisors")
            .summary("Lists compute nodes, with few fields")
            .query(&LIST)
            .responds("hypervisors"),
        ComputeOperation::get("/v2.1/os-hypervisors/detail", detail)
            .rule(admin("os_compute_api:os-hypervisors:list-detail"))
            .id("listHypervisorsDetail")
            .summary("Lists compute nodes, with all fields")
            .query(&LIST)
            .responds("hypervisors"),
        ComputeOperation::get("/v2.1/os-hypervisors/statistics", statistics)
            .rule(admin("os_compute_api:os-hypervisors:statistics"))
            .id("showHypervisorStatistics")
            .summary("Shows the sums over all compute nodes")
            .responds("hypervisor_statistics"),
        ComputeOperation::get("/v2.1/os-hypervisors/{hypervisor}", show)
            .rule(admin("os_compute_api:os-hypervisors:show"))
            .id("showHypervisor")
            .summary("Shows a compute node")
            .query(&SHOW)
            .responds("hypervisor"),
        ComputeOperation::get("/v2.1/os-hypervisors/{hypervisor}/search", search)
            .rule(admin("os_compute_api:os-hypervisors:search"))
            .id("searchHypervisors")
            .summary("Searches compute nodes by a part of their names")
            .responds("hypervisors"),
        ComputeOperation::get("/v2.1/os-hypervisors/{hypervisor}/servers", servers)
            .rule(admin("os_compute_api:os-hypervisors:servers"))
            .id("listHypervisorServers")
            .summary("Searches compute nodes by a part of their names and lists their servers")
            .responds("hypervisors"),
        ComputeOperation::get("/v2.1/os-hypervisors/{hypervisor}/uptime", uptime)
            .rule(admin("os_compute_api:os-hypervisors:uptime"))
            .id("showHypervisorUptime")
            .summary("Shows the uptime of a compute node")
            .responds("hypervisor")
            .errors(&[501]),
    ]
}

type OnNodes = BTreeMap<NodeName, Vec<ServerOnNode>>;

struct HypervisorView {
    id: String,
    host: ComputeHost,
    node: ComputeNode,
}

impl ComputeApi {
    async fn hypervisors(&self, call: &ApiRequest) -> Result<Vec<HypervisorView>, Fault> {
        let hosts = self.compute.inner.hosts.hosts().await.map_err(host_fault)?;
        let nodes = hosts.into_iter().flat_map(|host| {
            let nodes = host.nodes.clone();
            nodes.into_iter().map(move |node| (host.clone(), node))
        });
        let all = nodes
            .map(|(host, node)| HypervisorView {
                id: match call.version.has(SERVICE_UUIDS) {
                    true => node.uuid.to_string(),
                    false => number_of(node.uuid).to_string(),
                },
                host,
                node,
            })
            .collect();
        Ok(all)
    }

    /// The nodes with `part` in their names; 404 if there are none.
    async fn matching(&self, call: &ApiRequest, part: &str) -> Result<Vec<HypervisorView>, Fault> {
        let mut all = self.hypervisors(call).await?;
        all.retain(|hypervisor| hypervisor.node.hypervisor_hostname.contains(part));
        match all.is_empty() {
            false => Ok(all),
            true => {
                let part = bounded(part);
                Err(Fault::not_found(format!(
                    "No hypervisor matching '{part}' could be found."
                )))
            }
        }
    }

    async fn servers_on(&self, call: &ApiRequest) -> Result<Option<OnNodes>, Fault> {
        let wanted = call.query.last("with_servers").and_then(boolean);
        if !wanted.unwrap_or(false) || !call.version.has(SERVICE_UUIDS) {
            return Ok(None);
        }
        self.all_servers().await.map(Some)
    }

    async fn all_servers(&self) -> Result<OnNodes, Fault> {
        let servers = self.compute.servers_on_nodes().await;
        servers.map_err(super::servers::fault)
    }
}

fn summary(
    call: &ApiRequest,
    hypervisor: &HypervisorView,
    down: f64,
    servers: Option<&OnNodes>,
) -> Value {
    let state = match is_up(&hypervisor.host, down) {
        true => "up",
        false => "down",
    };
    let status = match hypervisor.host.status {
        ServiceStatus::Enabled => "enabled",
        ServiceStatus::Disabled { .. } => "disabled",
    };
    let id = match call.version.has(SERVICE_UUIDS) {
        true => json!(hypervisor.node.uuid),
        false => json!(number_of(hypervisor.node.uuid)),
    };
    let mut shown = json!({
        "id": id,
        "hypervisor_hostname": hypervisor.node.hypervisor_hostname,
        "state": state,
        "status": status,
    });
    if let Some(servers) = servers {
        let node = NodeName::new(&hypervisor.node.hypervisor_hostname).ok();
        let own = node.and_then(|node| servers.get(&node));
        let own: Vec<Value> = own
            .into_iter()
            .flatten()
            .map(|server| json!({"uuid": server.uuid, "name": server.instance_name}))
            .collect();
        if !own.is_empty() || call.version.has(STRICT) {
            shown["servers"] = json!(own);
        }
    }
    shown
}

/// Adds the last report of the node's agent.
async fn document(
    api: &ComputeApi,
    call: &ApiRequest,
    hypervisor: &HypervisorView,
    mut shown: Value,
) -> Result<Value, Fault> {
    let report = match api
        .compute
        .inner
        .hosts
        .reported_state(&hypervisor.host.host)
        .await
    {
        Err(HostStateError::NotFound { .. }) => None,
        Err(HostStateError::Table(error)) => return Err(super::hosts::table_fault(&error)),
        Err(other) => return Err(Fault::internal(other.to_string())),
        Ok(report) => report
            .nodes
            .into_iter()
            .find(|it| it.uuid == hypervisor.node.uuid),
    };
    let reason = match &hypervisor.host.status {
        ServiceStatus::Disabled { reason } => reason.clone(),
        ServiceStatus::Enabled => None,
    };
    let uuid = uuid_of(&hypervisor.host.host);
    let id = match call.version.has(SERVICE_UUIDS) {
        true => json!(uuid),
        false => json!(number_of(uuid)),
    };
    shown["service"] = json!({"id": id, "host": hypervisor.host.host, "disabled_reason": reason});
    shown["running_vms"] = json!(hypervisor.node.instances);
    shown["current_workload"] = json!(0);
    if let Some(node) = report {
        amounts(call, &node, &mut shown);
    }
    Ok(shown)
}

fn amounts(call: &ApiRequest, node: &NodeStateBody, shown: &mut Value) {
    shown["hypervisor_type"] = json!(node.hypervisor_type);
    shown["hypervisor_version"] = json!(node.hypervisor_version.unwrap_or_default());
    shown["host_ip"] = json!(node.host_ip);
    shown["vcpus"] = json!(node.vcpus);
    shown["vcpus_used"] = json!(node.vcpus_used);
    shown["memory_mb"] = json!(node.memory_mb);
    shown["memory_mb_used"] = json!(node.memory_mb_used);
    shown["local_gb"] = json!(node.local_gb);
    shown["local_gb_used"] = json!(node.local_gb_used);
    shown["free_ram_mb"] = json!(node.memory_mb.saturating_sub(node.memory_mb_used));
    shown["free_disk_gb"] = json!(node.local_gb.saturating_sub(node.local_gb_used));
    shown["disk_available_least"] = json!(node.disk_available_least);
    let text = node.cpu_info.clone().unwrap_or_default();
    shown["cpu_info"] = match call.version.has(CPU_INFO_OBJECT) {
        true => serde_json::from_str(&text).unwrap_or_else(|_| json!({})),
        false => json!(text),
    };
}

/// Validates the query as Nova does since 2.53: only known keys, each once, with valid values.
fn check_query(call: &ApiRequest, known: &[&'static str]) -> Result<(), Fault> {
    if !call.version.has(SERVICE_UUIDS) {
        return Ok(());
    }
    check_keys(call, known)?;
    for key in known {
        let mut given = call.query.all(key);
        let (Some(text), again) = (given.next(), given.next()) else {
            continue;
        };
        if again.is_some() {
            return Err(wrong(key, text, "it is given more than once"));
        }
        match *key {
            "with_servers" if boolean(text).is_none() => {
                return Err(wrong(key, text, "it is neither true nor false"));
            }
            "hypervisor_hostname_pattern" if !is_host_name(text) => {
                return Err(wrong(key, text, "it is not part of a host name"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the text has only characters that Nova allows in host names.
fn is_host_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=255).contains(&text.len()) && text.bytes().all(plain)
}

async fn page(
    api: &ComputeApi,
    call: &ApiRequest,
    path: &str,
) -> Result<(Vec<HypervisorView>, Option<Value>), Fault> {
    let pattern = call.query.last("hypervisor_hostname_pattern");
    if let Some(part) = pattern.filter(|_| call.version.has(SERVICE_UUIDS)) {
        if ["limit", "marker"]
            .iter()
            .any(|key| call.query.last(key).is_some())
        {
            return Err(Fault::bad_request(
                "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported.",
            ));
        }
        return Ok((api.matching(call, part).await?, None));
    }
    let all = api.hypervisors(call).await?;
    if !call.version.has(HYPERVISOR_PAGES) {
        return Ok((all, None));
    }
    let (page, full) = PageQuery::of(call)?.cut(all, |hypervisor| &hypervisor.id)?;
    let link = page
        .last()
        .filter(|_| full)
        .map(|last| next(call, path, &last.id));
    Ok((page, link))
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    check_query(&call, &LIST)?;
    api.allow(&call)?;
    let (page, link) = page(&api, &call, "os-hypervisors").await?;
    let servers = api.servers_on(&call).await?;
    let down = api.down();
    let shown: Vec<Value> = page
        .iter()
        .map(|hypervisor| summary(&call, hypervisor, down, servers.as_ref()))
        .collect();
    let mut body = json!({ "hypervisors": shown });
    if let Some(link) = link {
        body["hypervisors_links"] = link;
    }
    ApiResponse::ok(&body)
}

async fn detail(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    check_query(&call, &LIST)?;
    api.allow(&call)?;
    let (page, link) = page(&api, &call, "os-hypervisors/detail").await?;
    let servers = api.servers_on(&call).await?;
    let down = api.down();
    let mut shown = Vec::new();
    for hypervisor in &page {
        let summary = summary(&call, hypervisor, down, servers.as_ref());
        shown.push(document(&api, &call, hypervisor, summary).await?);
    }
    let mut body = json!({ "hypervisors": shown });
    if let Some(link) = link {
        body["hypervisors_links"] = link;
    }
    ApiResponse::ok(&body)
}

/// The hypervisor in the path.
fn named<'a>(call: &ApiRequest, all: &'a [HypervisorView]) -> Result<&'a HypervisorView, Fault> {
    let id = call.path("hypervisor")?;
    all.iter()
        .find(|hypervisor| hypervisor.id == id)
        .ok_or_else(|| {
            let id = bounded(id);
            Fault::not_found(format!("Hypervisor with ID '{id}' could not be found."))
        })
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    check_query(&call, &SHOW)?;
    api.allow(&call)?;
    let all = api.hypervisors(&call).await?;
    let found = named(&call, &all)?;
    let servers = api.servers_on(&call).await?;
    let summary = summary(&call, found, api.down(), servers.as_ref());
    ApiResponse::ok(&json!({"hypervisor": document(&api, &call, found, summary).await?}))
}

/// The search by name: a path of its own up to 2.52, a query key later.
async fn matching(api: &ComputeApi, call: &ApiRequest) -> Result<Vec<HypervisorView>, Fault> {
    if call.version.has(SERVICE_UUIDS) {
        return Err(Fault::no_such_route());
    }
    api.matching(call, call.path("hypervisor")?).await
}

async fn search(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let found = matching(&api, &call).await?;
    let down = api.down();
    let shown = found
        .iter()
        .map(|hypervisor| summary(&call, hypervisor, down, None));
    ApiResponse::ok(&json!({"hypervisors": shown.collect::<Vec<_>>()}))
}

async fn servers(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let found = matching(&api, &call).await?;
    let servers = api.all_servers().await?;
    let down = api.down();
    let shown = found
        .iter()
        .map(|hypervisor| summary(&call, hypervisor, down, Some(&servers)));
    ApiResponse::ok(&json!({"hypervisors": shown.collect::<Vec<_>>()}))
}

/// Agents do not report uptimes. Nova answers so if the driver does not support them.
async fn uptime(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    named(&call, &api.hypervisors(&call).await?)?;
    Err(Fault::new(
        StatusCode::NOT_IMPLEMENTED,
        "The requested functionality is not supported.",
    ))
}

async fn statistics(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let keys = [
        "vcpus",
        "vcpus_used",
        "memory_mb",
        "memory_mb_used",
        "local_gb",
        "local_gb_used",
        "free_ram_mb",
        "free_disk_gb",
        "disk_available_least",
        "running_vms",
        "current_workload",
    ];
    let all = api.hypervisors(&call).await?;
    let mut sums = vec![0_i64; keys.len()];
    for hypervisor in &all {
        let summary = summary(&call, hypervisor, api.down(), None);
        let shown = document(&api, &call, hypervisor, summary).await?;
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = sum.saturating_add(shown[key].as_i64().unwrap_or_default());
        }
    }
    let mut body = json!({"count": all.len()});
    for (sum, key) in sums.into_iter().zip(keys) {
        body[key] = json!(sum);
    }
    ApiResponse::ok(&json!({"hypervisor_statistics": body}))
}
