//! /v2.1/servers/{server}/diagnostics and /v2.1/servers/{server}/topology: what a hypervisor counts of a guest, and where
//! its NUMA cells are.

use axum::extract::State;
use berth_client::{GuestApiError, GuestClient};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_model::{ConsumerUuid, PowerState};
use berth_store::SqlTimestamp;
use berth_wire::guest::DiagnosticsBody;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::microversions::{DIAGNOSTICS, TOPOLOGY};
use crate::policies::{admin, reader};
use crate::server_status::ServerWithStatus;
use crate::servers::launched_at;
use crate::state::{ComputeApi, ComputeOperation};

/// See the host's cells and CPUs in the topology.
const HOST_TOPOLOGY: RuleDefault = admin("compute:server:topology:host:index");

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/diagnostics", diagnostics)
            .rule(admin("os_compute_api:os-server-diagnostics"))
            .extension("os-server-diagnostics", "ServerDiagnostics")
            .id("showServerDiagnostics")
            .summary("Shows what the hypervisor counts of a server")
            .errors(&[409, 501]),
        ComputeOperation::get("/v2.1/servers/{server}/topology", topology)
            .rule(reader("compute:server:topology:index"))
            .other_rules(&[HOST_TOPOLOGY])
            .since(TOPOLOGY)
            .id("showServerTopology")
            .summary("Shows the NUMA cells of a server"),
    ]
}

fn agent_of(api: &ComputeApi, known: &ServerWithStatus) -> Result<GuestClient, Fault> {
    let not_ready = || Fault::conflict(format!("Instance {} is not ready", known.server.uuid));
    let placement = known.placement.as_ref().ok_or_else(not_ready)?;
    let agent = api.compute.inner.conductor.agent(placement);
    agent.ok_or_else(not_ready)
}

async fn diagnostics(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let known = api.server_now(&call).await?;
    let uuid = known.server.uuid;
    let agent = agent_of(&api, &known)?;
    let state = known.state.power_state;
    if state != Some(PowerState::Running) {
        let state = state.map_or_else(|| "pending".to_owned(), |state| state.to_string());
        return Err(Fault::conflict(format!(
            "Cannot 'get_diagnostics' instance {uuid} while it is in power state {state}"
        )));
    }
    let found = agent.diagnostics(ConsumerUuid::from(uuid)).await;
    let found = found.map_err(|error| match error {
        GuestApiError::NotFound(_) => Fault::conflict(format!("Instance {uuid} is not ready")),
        GuestApiError::Unavailable(refused) if refused.status == StatusCode::NOT_IMPLEMENTED => {
            Fault::new(
                StatusCode::NOT_IMPLEMENTED,
                "Unable to get diagnostics, functionality not implemented",
            )
        }
        error => {
            tracing::warn!(error = &error as &dyn std::error::Error, server = %uuid, "reading the statistics of a server failed");
            Fault::unavailable("The diagnostics cannot be read now; try again.")
        }
    })?;
    let now = SqlTimestamp::now().as_micros();
    let uptime = launched_at(&known).map(|at| now.saturating_sub(at.as_micros()) / 1_000_000);
    match call.version.has(DIAGNOSTICS) {
        true => ApiResponse::ok(&standard(&found, uptime)),
        false => ApiResponse::ok(&of_libvirt(&found)),
    }
}

/// Nova's form since 2.48.
fn standard(found: &DiagnosticsBody, uptime: Option<i64>) -> Value {
    let disks = found.disks.iter().map(|disk| {
        json!({
            "read_bytes": disk.read_bytes,
            "read_requests": disk.read_requests,
            "write_bytes": disk.write_bytes,
            "write_requests": disk.write_requests,
            "errors_count": disk.errors,
        })
    });
    let disks: Vec<Value> = disks.collect();
    let interfaces = found.interfaces.iter().map(|interface| {
        let (received, sent) = (&interface.received, &interface.sent);
        json!({
            "mac_address": interface.mac,
            "rx_octets": received.bytes,
            "rx_errors": received.errors,
            "rx_drop": received.dropped,
            "rx_packets": received.packets,
            "rx_rate": null,
            "tx_octets": sent.bytes,
            "tx_errors": sent.errors,
            "tx_drop": sent.dropped,
            "tx_packets": sent.packets,
            "tx_rate": null,
        })
    });
    let interfaces: Vec<Value> = interfaces.collect();
    // The hypervisor's interface counts the time of all virtual CPUs together.
    let time = found.cpu_time_ns.filter(|_| found.vcpus == 1);
    let cpus = (0..found.vcpus).map(|id| json!({"id": id, "time": time, "utilisation": null}));
    let cpus: Vec<Value> = cpus.collect();
    json!({
        "state": "running",
        "driver": found.driver,
        "hypervisor": null,
        "hypervisor_os": "linux",
        "uptime": uptime,
        "config_drive": true,
        "num_cpus": cpus.len(),
        "num_nics": interfaces.len(),
        "num_disks": disks.len(),
        "memory_details": {"maximum": found.memory_maximum_mb, "used": found.memory_used_mb},
        "cpu_details": cpus,
        "nic_details": interfaces,
        "disk_details": disks,
    })
}

/// The form of Nova's libvirt driver before 2.48.
fn of_libvirt(found: &DiagnosticsBody) -> Value {
    let mut all = Map::new();
    let mut put = |key: String, number: Option<u64>| {
        all.insert(key, json!(number));
    };
    put("memory".to_owned(), Some(found.memory_maximum_mb * 1024));
    if found.vcpus == 1 {
        put("cpu0_time".to_owned(), found.cpu_time_ns);
    }
    for disk in &found.disks {
        put(format!("{}_read_req", disk.name), disk.read_requests);
        put(format!("{}_read", disk.name), disk.read_bytes);
        put(format!("{}_write_req", disk.name), disk.write_requests);
        put(format!("{}_write", disk.name), disk.write_bytes);
        put(format!("{}_errors", disk.name), disk.errors);
    }
    for interface in &found.interfaces {
        let Some(device) = &interface.device else {
            continue;
        };
        for (way, counted) in [("rx", &interface.received), ("tx", &interface.sent)] {
            put(format!("{device}_{way}"), counted.bytes);
            put(format!("{device}_{way}_packets"), counted.packets);
            put(format!("{device}_{way}_errors"), counted.errors);
            put(format!("{device}_{way}_drop"), counted.dropped);
        }
    }
    Value::Object(all)
}

async fn topology(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let known = api.server_now(&call).await?;
    let nothing = json!({"nodes": [], "pagesize_kb": null});
    let Ok(agent) = agent_of(&api, &known) else {
        return ApiResponse::ok(&nothing);
    };
    let found = agent.guest(ConsumerUuid::from(known.server.uuid)).await;
    let guest = match found {
        Ok(Some(guest)) => guest,
        Ok(None) => return ApiResponse::ok(&nothing),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, server = %known.server.uuid, "reading the topology of a server failed");
            return Err(Fault::unavailable(
                "The topology cannot be read now; try again.",
            ));
        }
    };
    let project = Some(known.server.project_id.as_str());
    let sees_host = api.allow_rule(&call, HOST_TOPOLOGY, project).is_ok();
    let nodes = guest.cells.iter().map(|cell| {
        let mut node = json!({
            "vcpu_set": cell.vcpus,
            "siblings": [],
            "memory_mb": cell.memory_mb,
        });
        if sees_host {
            node["host_node"] = json!(cell.host_cell);
            node["cpu_pinning"] = json!(cell.pins);
        }
        node
    });
    let nodes: Vec<Value> = nodes.collect();
    ApiResponse::ok(&json!({"nodes": nodes, "pagesize_kb": guest.page_size_kib}))
}
