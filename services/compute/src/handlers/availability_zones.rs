//! /v2.1/os-availability-zone: the availability zones and, for operators, their hosts.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_hosts::{ComputeHost, ServiceStatus};
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};

use super::hosts::{aggregate_fault, host_fault};
use crate::policies::{admin, everybody};
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::server::precise;

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-availability-zone", list)
            .rule(everybody("os_compute_api:os-availability-zone:list"))
            .extension("os-availability-zone", "AvailabilityZone")
            .id("listAvailabilityZones")
            .summary("Lists availability zones")
            .responds("availabilityZoneInfo"),
        ComputeOperation::get("/v2.1/os-availability-zone/detail", detail)
            .rule(admin("os_compute_api:os-availability-zone:detail"))
            .id("listAvailabilityZonesDetail")
            .summary("Lists availability zones with their hosts")
            .responds("availabilityZoneInfo"),
    ]
}

async fn zones(api: &ComputeApi) -> Result<BTreeMap<String, Vec<ComputeHost>>, Fault> {
    let hosts = &api.compute.inner.hosts;
    let zones = hosts.availability_zones().await.map_err(aggregate_fault)?;
    let all = hosts.hosts().await.map_err(host_fault)?;
    let of_zone = |names: &std::collections::BTreeSet<String>| {
        let own = all.iter().filter(|host| names.contains(&host.host));
        own.cloned().collect()
    };
    Ok(zones
        .iter()
        .map(|(zone, names)| (zone.clone(), of_zone(names)))
        .collect())
}

fn is_enabled(host: &ComputeHost) -> bool {
    host.status == ServiceStatus::Enabled
}

fn shown(zone: &str, hosts: &[ComputeHost], of_hosts: Value) -> Value {
    // A zone is available if one of its hosts is enabled.
    let available = hosts.iter().any(is_enabled);
    json!({"zoneName": zone, "zoneState": {"available": available}, "hosts": of_hosts})
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let zones = zones(&api).await?;
    let shown: Vec<Value> = zones
        .iter()
        .map(|(zone, hosts)| shown(zone, hosts, Value::Null))
        .collect();
    ApiResponse::ok(&json!({"availabilityZoneInfo": shown}))
}

async fn detail(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let down = api.down();
    let one = |host: &ComputeHost| {
        json!({"nova-compute": {
            "available": super::hosts::is_up(host, down),
            "active": is_enabled(host),
            "updated_at": host.last_seen_at.map(precise),
        }})
    };
    let zones = zones(&api).await?;
    let shown: Vec<Value> = zones
        .iter()
        .map(|(zone, hosts)| {
            let of_hosts: BTreeMap<&str, Value> = hosts
                .iter()
                .map(|host| (host.host.as_str(), one(host)))
                .collect();
            shown(zone, hosts, json!(of_hosts))
        })
        .collect();
    ApiResponse::ok(&json!({"availabilityZoneInfo": shown}))
}
