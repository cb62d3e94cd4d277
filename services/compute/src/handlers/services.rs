//! /v2.1/os-services: the agents of hosts. Operators disable them or force them down: up to 2.52 by host name, from
//! 2.53 on by UUID.

use axum::extract::State;
use berth_hosts::{ComputeHost, ServiceStatus, ServiceUpdate};
use berth_http::fields::{BodyFields, bounded, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::hosts::{host_fault, is_up};
use crate::microversions::{FORCED_DOWN, SERVICE_UUIDS, STRICT};
use crate::openapi::schemas::{object, text};
use crate::paging::check_keys;
use crate::policies::admin;
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::server::precise;

/// The query keys of a list.
const QUERY: [&str; 2] = ["binary", "host"];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-services", list)
            .rule(admin("os_compute_api:os-services:list"))
            .extension("os-services", "Services")
            .id("listServices")
            .summary("Lists the services of the hosts")
            .query(&QUERY)
            .responds("services"),
        ComputeOperation::put("/v2.1/os-services/{service}", update)
            .rule(admin("os_compute_api:os-services:update"))
            .id("updateService")
            .summary("Enables, disables or forces down a service")
            .body(service_schema)
            .responds("service"),
        ComputeOperation::delete("/v2.1/os-services/{service}", delete)
            .rule(admin("os_compute_api:os-services:delete"))
            .id("deleteService")
            .summary("Deletes the service of a host that no longer exists")
            .statuses(&[204]),
    ]
}

fn service_schema() -> Value {
    object(
        &[],
        [
            ("status", json!({"enum": ["enabled", "disabled"]})),
            ("disabled_reason", text(1, 255)),
            ("forced_down", json!({"type": "boolean"})),
        ],
    )
}

/// The service name that clients expect.
const BINARY: &str = "nova-compute";

/// The UUID of a host's service, derived from the host's name.
pub(super) fn uuid_of(host: &str) -> Uuid {
    Uuid::new_v5(
        &Uuid::NAMESPACE_URL,
        format!("berth:service:{BINARY}:{host}").as_bytes(),
    )
}

/// The number for versions without UUIDs, derived from the UUID.
pub(super) fn number_of(uuid: Uuid) -> u64 {
    uuid.as_u64_pair().1 & 0x7FFF_FFFF
}

fn shown(call: &ApiRequest, host: &ComputeHost, zone: Option<&String>, down: f64) -> Value {
    let uuid = uuid_of(&host.host);
    let (status, reason) = match &host.status {
        ServiceStatus::Enabled => ("enabled", None),
        ServiceStatus::Disabled { reason } => ("disabled", reason.clone()),
    };
    let state = match is_up(host, down) {
        true => "up",
        false => "down",
    };
    let mut shown = json!({
        "id": number_of(uuid),
        "binary": BINARY,
        "host": host.host,
        "zone": zone,
        "status": status,
        "state": state,
        "updated_at": host.last_seen_at.map(precise),
        "disabled_reason": reason,
    });
    if call.version.has(SERVICE_UUIDS) {
        shown["id"] = json!(uuid);
    }
    if call.version.has(FORCED_DOWN) {
        shown["forced_down"] = json!(host.forced_down);
    }
    shown
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    if call.version.has(STRICT) {
        check_keys(&call, &QUERY)?;
    }
    api.allow(&call)?;
    let binary = call.query.last("binary").is_none_or(|it| it == BINARY);
    let named = call.query.last("host");
    let visibility = api.visibility(&call).await?;
    let hosts = api.compute.inner.hosts.hosts().await.map_err(host_fault)?;
    let matching = hosts
        .iter()
        .filter(|host| binary && named.is_none_or(|name| host.host == name));
    let down = api.down();
    let services: Vec<Value> = matching
        .map(|host| shown(&call, host, visibility.zones.get(&host.host), down))
        .collect();
    ApiResponse::ok(&json!({ "services": services }))
}

impl ComputeApi {
    /// The host of the service in the path.
    async fn service_host(&self, call: &ApiRequest) -> Result<ComputeHost, Fault> {
        let id = call.path("service")?;
        let hosts = self.compute.inner.hosts.hosts().await.map_err(host_fault)?;
        let is_match = |host: &ComputeHost| {
            let uuid = uuid_of(&host.host);
            match call.version.has(SERVICE_UUIDS) {
                true => id.parse() == Ok(uuid),
                false => id.parse() == Ok(number_of(uuid)),
            }
        };
        hosts.into_iter().find(is_match).ok_or_else(|| {
            let id = bounded(id);
            Fault::not_found(format!("Service {id} not found."))
        })
    }

    async fn update_service(
        &self,
        host: &str,
        update: ServiceUpdate,
    ) -> Result<ComputeHost, Fault> {
        let hosts = &self.compute.inner.hosts;
        hosts.update_service(host, update).await.map_err(host_fault)
    }
}

/// PUT /os-services/{what}: up to 2.52 `enable`, `disable`, `disable-log-reason` and `force-down`;
/// later the service's UUID.
async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    match call.version.has(SERVICE_UUIDS) {
        true => by_uuid(&api, &call).await,
        false => by_name(&api, &call).await,
    }
}

async fn by_uuid(api: &ComputeApi, call: &ApiRequest) -> Result<ApiResponse, Fault> {
    let host = api.service_host(call).await?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let status = fields.value("status");
    let reason = fields.text("disabled_reason", 1..=255)?;
    let forced_down = fields.boolean("forced_down")?;
    fields.end()?;
    let status = match (status, status.and_then(Value::as_str)) {
        (None, _) if reason.is_some() => {
            let sentence = "disabled_reason requires status \"disabled\"";
            return Err(Fault::bad_request(sentence));
        }
        (None, _) => None,
        (Some(_), Some("disabled")) => Some(ServiceStatus::Disabled {
            reason: reason.map(str::to_owned),
        }),
        (Some(_), Some("enabled")) if reason.is_none() => Some(ServiceStatus::Enabled),
        (Some(_), Some("enabled")) => {
            let sentence = "Specifying 'disabled_reason' when status is 'enabled' is invalid.";
            return Err(Fault::bad_request(sentence));
        }
        (Some(other), _) => {
            return Err(invalid_field("status", other, "it is enabled or disabled"));
        }
    };
    if status.is_none() && forced_down.is_none() {
        let sentence =
            "No updates were requested. Fields 'status' or 'forced_down' should be specified.";
        return Err(Fault::bad_request(sentence));
    }
    let update = ServiceUpdate {
        status,
        forced_down,
        cell: None,
    };
    let host = api.update_service(&host.host, update).await?;
    let visibility = api.visibility(call).await?;
    let zone = visibility.zones.get(&host.host);
    ApiResponse::ok(&json!({"service": shown(call, &host, zone, api.down())}))
}

async fn by_name(api: &ComputeApi, call: &ApiRequest) -> Result<ApiResponse, Fault> {
    let what = call.path("service")?.to_owned();
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of("body", &body)?;
    let host = fields.text("host", 1..=255)?;
    let host = fields.required("host", host)?.to_owned();
    let binary = fields.text("binary", 1..=255)?;
    if fields.required("binary", binary)? != BINARY {
        let sentence = format!("Host '{host}' is not mapped to any cell");
        return Err(Fault::not_found(sentence));
    }
    let mut document: Map<String, Value> = Map::new();
    let mut update = ServiceUpdate::default();
    match what.as_str() {
        "enable" => {
            update.status = Some(ServiceStatus::Enabled);
            document.insert("status".to_owned(), json!("enabled"));
        }
        "disable" | "disable-log-reason" => {
            let reason = match what.as_str() {
                "disable" => None,
                _ => {
                    let reason = fields.text("disabled_reason", 1..=255)?;
                    Some(fields.required("disabled_reason", reason)?.to_owned())
                }
            };
            document.insert("status".to_owned(), json!("disabled"));
            if let Some(reason) = &reason {
                document.insert("disabled_reason".to_owned(), json!(reason));
            }
            update.status = Some(ServiceStatus::Disabled { reason });
        }
        "force-down" if call.version.has(FORCED_DOWN) => {
            let forced = fields.boolean("forced_down")?;
            let forced = fields.required("forced_down", forced)?;
            document.insert("forced_down".to_owned(), json!(forced));
            update.forced_down = Some(forced);
        }
        _ => return Err(Fault::no_such_route()),
    }
    fields.end()?;
    api.update_service(&host, update).await?;
    document.insert("host".to_owned(), json!(host));
    document.insert("binary".to_owned(), json!(BINARY));
    ApiResponse::ok(&json!({"service": document}))
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let host = api.service_host(&call).await?;
    let instances: i64 = host.nodes.iter().map(|node| node.instances).sum();
    if instances > 0 {
        let name = &host.host;
        return Err(Fault::conflict(format!(
            "Unable to delete compute service that is hosting instances. Host {name} reported {instances} last: delete them \
             first (openstack server list --all-projects --host {name}). The number changes with the next report of the \
             host's agent."
        )));
    }
    let removed = api.compute.inner.hosts.remove(&host.host).await;
    removed.map_err(host_fault)?;
    Ok(ApiResponse::no_content())
}
