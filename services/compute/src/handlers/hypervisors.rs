//! /v2.1/os-hypervisors: the compute nodes of hosts, as operators see them.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_hosts::{ComputeHost, ComputeNode, HostStateError, ServiceStatus};
use berth_http::{Answer, Call, Fault};
use berth_model::NodeName;
use berth_wire::host_state::NodeStateBody;
use http::StatusCode;
use serde_json::{Value, json};

use super::hosts::{host_fault, is_up};
use super::server_query::wrong;
use super::services::{number_of, uuid_of};
use crate::fields::{boolean, bounded};
use crate::microversions::{CPU_INFO_OBJECT, HYPERVISOR_PAGES, SERVICE_UUIDS, STRICT};
use crate::paging::{Page, check_keys, next};
use crate::policies;
use crate::router::Api;
use crate::servers::ServerOnNode;

/// What a list may be asked with, and what one of them.
const LIST: [&str; 4] = [
    "limit",
    "marker",
    "hypervisor_hostname_pattern",
    "with_servers",
];
const SHOW: [&str; 1] = ["with_servers"];

/// The servers of each node.
type OnNodes = BTreeMap<NodeName, Vec<ServerOnNode>>;

/// A node and its host.
struct Hypervisor {
    id: String,
    host: ComputeHost,
    node: ComputeNode,
}

impl Api {
    async fn hypervisors(&self, call: &Call) -> Result<Vec<Hypervisor>, Fault> {
        let hosts = self.compute.inner.hosts.hosts().await.map_err(host_fault)?;
        let nodes = hosts.into_iter().flat_map(|host| {
            let nodes = host.nodes.clone();
            nodes.into_iter().map(move |node| (host.clone(), node))
        });
        let all = nodes
            .map(|(host, node)| Hypervisor {
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

    /// Those with this in their names.
    async fn matching(&self, call: &Call, part: &str) -> Result<Vec<Hypervisor>, Fault> {
        let mut all = self.hypervisors(call).await?;
        all.retain(|one| one.node.hypervisor_hostname.contains(part));
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

    async fn servers_on(&self, call: &Call) -> Result<Option<OnNodes>, Fault> {
        let wanted = call.query.last("with_servers").and_then(boolean);
        if !wanted.unwrap_or(false) || !call.version.has(SERVICE_UUIDS) {
            return Ok(None);
        }
        self.all_servers().await.map(Some)
    }

    /// All servers, by their nodes.
    async fn all_servers(&self) -> Result<OnNodes, Fault> {
        let servers = self.compute.servers_on_nodes().await;
        servers.map_err(super::servers::fault)
    }
}

fn brief(call: &Call, one: &Hypervisor, down: f64, servers: Option<&OnNodes>) -> Value {
    let state = match is_up(&one.host, down) {
        true => "up",
        false => "down",
    };
    let status = match one.host.status {
        ServiceStatus::Enabled => "enabled",
        ServiceStatus::Disabled { .. } => "disabled",
    };
    let id = match call.version.has(SERVICE_UUIDS) {
        true => json!(one.node.uuid),
        false => json!(number_of(one.node.uuid)),
    };
    let mut shown = json!({
        "id": id,
        "hypervisor_hostname": one.node.hypervisor_hostname,
        "state": state,
        "status": status,
    });
    if let Some(servers) = servers {
        let node = NodeName::new(&one.node.hypervisor_hostname).ok();
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

/// What its agent told last, and what that comes to.
async fn whole(api: &Api, call: &Call, one: &Hypervisor, mut shown: Value) -> Result<Value, Fault> {
    let told = match api.compute.inner.hosts.told(&one.host.host).await {
        Err(HostStateError::NotFound { .. }) => None,
        Err(HostStateError::Table(error)) => return Err(super::hosts::table_fault(&error)),
        Err(other) => return Err(Fault::internal(other.to_string())),
        Ok(told) => told.nodes.into_iter().find(|it| it.uuid == one.node.uuid),
    };
    let reason = match &one.host.status {
        ServiceStatus::Disabled { reason } => reason.clone(),
        ServiceStatus::Enabled => None,
    };
    let uuid = uuid_of(&one.host.host);
    let id = match call.version.has(SERVICE_UUIDS) {
        true => json!(uuid),
        false => json!(number_of(uuid)),
    };
    shown["service"] = json!({"id": id, "host": one.host.host, "disabled_reason": reason});
    shown["running_vms"] = json!(one.node.instances);
    shown["current_workload"] = json!(0);
    if let Some(node) = told {
        amounts(call, &node, &mut shown);
    }
    Ok(shown)
}

fn amounts(call: &Call, node: &NodeStateBody, shown: &mut Value) {
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

/// Refuses what Nova refuses of a query since 2.53: other keys, a key twice, and other values than each may have.
fn check_query(call: &Call, known: &[&'static str]) -> Result<(), Fault> {
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
                return Err(wrong(key, text, "it is no part of a host's name"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a text has nothing but what Nova's names of hosts have.
fn is_host_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=255).contains(&text.len()) && text.bytes().all(plain)
}

async fn page(
    api: &Api,
    call: &Call,
    path: &str,
) -> Result<(Vec<Hypervisor>, Option<Value>), Fault> {
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
    let (page, full) = Page::of(call)?.cut(all, |one| &one.id)?;
    let link = page
        .last()
        .filter(|_| full)
        .map(|last| next(call, path, &last.id));
    Ok((page, link))
}

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    check_query(&call, &LIST)?;
    api.allow(&call, policies::HYPERVISOR_LIST)?;
    let (page, link) = page(&api, &call, "os-hypervisors").await?;
    let servers = api.servers_on(&call).await?;
    let down = api.down();
    let shown: Vec<Value> = page
        .iter()
        .map(|one| brief(&call, one, down, servers.as_ref()))
        .collect();
    let mut body = json!({ "hypervisors": shown });
    if let Some(link) = link {
        body["hypervisors_links"] = link;
    }
    Answer::ok(&body)
}

pub(crate) async fn detail(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    check_query(&call, &LIST)?;
    api.allow(&call, policies::HYPERVISOR_DETAIL)?;
    let (page, link) = page(&api, &call, "os-hypervisors/detail").await?;
    let servers = api.servers_on(&call).await?;
    let down = api.down();
    let mut shown = Vec::new();
    for one in &page {
        let brief = brief(&call, one, down, servers.as_ref());
        shown.push(whole(&api, &call, one, brief).await?);
    }
    let mut body = json!({ "hypervisors": shown });
    if let Some(link) = link {
        body["hypervisors_links"] = link;
    }
    Answer::ok(&body)
}

/// The one of a path.
fn named<'a>(call: &Call, all: &'a [Hypervisor]) -> Result<&'a Hypervisor, Fault> {
    let id = call.path("hypervisor")?;
    all.iter().find(|one| one.id == id).ok_or_else(|| {
        let id = bounded(id);
        Fault::not_found(format!("Hypervisor with ID '{id}' could not be found."))
    })
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    check_query(&call, &SHOW)?;
    api.allow(&call, policies::HYPERVISOR_SHOW)?;
    let all = api.hypervisors(&call).await?;
    let found = named(&call, &all)?;
    let servers = api.servers_on(&call).await?;
    let brief = brief(&call, found, api.down(), servers.as_ref());
    Answer::ok(&json!({"hypervisor": whole(&api, &call, found, brief).await?}))
}

/// The hypervisors whose names have this in them: a list of its own up to 2.52, a query from then on.
async fn matching(api: &Api, call: &Call) -> Result<Vec<Hypervisor>, Fault> {
    if call.version.has(SERVICE_UUIDS) {
        return Err(Fault::no_such_route());
    }
    api.matching(call, call.path("hypervisor")?).await
}

pub(crate) async fn search(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::HYPERVISOR_SEARCH)?;
    let found = matching(&api, &call).await?;
    let down = api.down();
    let shown = found.iter().map(|one| brief(&call, one, down, None));
    Answer::ok(&json!({"hypervisors": shown.collect::<Vec<_>>()}))
}

pub(crate) async fn servers(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::HYPERVISOR_SERVERS)?;
    let found = matching(&api, &call).await?;
    let servers = api.all_servers().await?;
    let down = api.down();
    let shown = found
        .iter()
        .map(|one| brief(&call, one, down, Some(&servers)));
    Answer::ok(&json!({"hypervisors": shown.collect::<Vec<_>>()}))
}

/// Agents do not tell how long their hosts have been up, which Nova answers so for its drivers that cannot.
pub(crate) async fn uptime(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::HYPERVISOR_UPTIME)?;
    named(&call, &api.hypervisors(&call).await?)?;
    Err(Fault::new(
        StatusCode::NOT_IMPLEMENTED,
        "The requested functionality is not supported.",
    ))
}

pub(crate) async fn statistics(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::HYPERVISOR_STATISTICS)?;
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
    for one in &all {
        let brief = brief(&call, one, api.down(), None);
        let shown = whole(&api, &call, one, brief).await?;
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = sum.saturating_add(shown[key].as_i64().unwrap_or_default());
        }
    }
    let mut body = json!({"count": all.len()});
    for (sum, key) in sums.into_iter().zip(keys) {
        body[key] = json!(sum);
    }
    Answer::ok(&json!({"hypervisor_statistics": body}))
}
