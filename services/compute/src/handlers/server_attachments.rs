//! What a server has of other services, and what this API does not do: /v2.1/servers/{server}/ips, os-interface,
//! os-volume_attachments, os-security-groups, migrations and os-server-password. All but addresses and interfaces are
//! always empty, because clients read them without asking whether there is a volume service or a live migration.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_client::network::PortFilter;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_model::ConsumerUuid;
use berth_wire::neutron::PortRecord;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fields::bounded;
use crate::microversions::{ATTACHMENT_TAGS, SERVER_MIGRATIONS};
use crate::policies::{admin, reader};
use crate::servers::ServerRecord;
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::server::{AddressDetail, addresses as shown};

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/servers/{server}/ips", addresses)
            .rule(reader("os_compute_api:ips:index"))
            .id("listAddresses")
            .summary("Lists the addresses of a server")
            .responds("addresses"),
        ComputeOperation::get("/v2.1/servers/{server}/ips/{network}", addresses_of)
            .rule(reader("os_compute_api:ips:show"))
            .id("showAddresses")
            .summary("Lists the addresses of a server in a network"),
        ComputeOperation::get("/v2.1/servers/{server}/os-interface", interfaces)
            .rule(reader("os_compute_api:os-attach-interfaces:list"))
            .extension("os-attach-interfaces", "AttachInterfaces")
            .id("listInterfaces")
            .summary("Lists the ports of a server")
            .responds("interfaceAttachments"),
        ComputeOperation::get("/v2.1/servers/{server}/os-interface/{port}", interface)
            .rule(reader("os_compute_api:os-attach-interfaces:show"))
            .id("showInterface")
            .summary("Shows a port of a server"),
        ComputeOperation::get("/v2.1/servers/{server}/os-volume_attachments", volumes)
            .rule(reader("os_compute_api:os-volumes-attachments:index"))
            .id("listVolumeAttachments")
            .summary("Lists the volumes of a server")
            .responds("volumeAttachments"),
        ComputeOperation::get(
            "/v2.1/servers/{server}/os-volume_attachments/{volume}",
            volume,
        )
        .rule(reader("os_compute_api:os-volumes-attachments:show"))
        .id("showVolumeAttachment")
        .summary("Shows a volume of a server"),
        ComputeOperation::get("/v2.1/servers/{server}/os-security-groups", security_groups)
            .rule(reader("os_compute_api:os-security-groups:list"))
            .extension("os-security-groups", "SecurityGroups")
            .id("listServerSecurityGroups")
            .summary("Lists the security groups of a server")
            .responds("security_groups"),
        ComputeOperation::get("/v2.1/servers/{server}/migrations", migrations)
            .rule(admin("os_compute_api:servers:migrations:index"))
            .since(SERVER_MIGRATIONS)
            .id("listServerMigrations")
            .summary("Lists the live migrations of a server that are in progress")
            .responds("migrations"),
        ComputeOperation::get("/v2.1/servers/{server}/os-server-password", password)
            .rule(reader("os_compute_api:os-server-password:show"))
            .extension("os-server-password", "ServerPassword")
            .id("showServerPassword")
            .summary("Shows the password that the guest has published for its key pair")
            .responds("password"),
    ]
}

async fn addresses(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let known = api.server_now(&call).await?;
    ApiResponse::ok(&json!({"addresses": shown(&known, AddressDetail::Address)}))
}

async fn addresses_of(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let known = api.server_now(&call).await?;
    let network = call.path("network")?;
    match shown(&known, AddressDetail::Address).get(network) {
        Some(addresses) => ApiResponse::ok(&BTreeMap::from([(network, addresses)])),
        None => Err(Fault::not_found(format!(
            "Network {} not found in instance.",
            bounded(network)
        ))),
    }
}

async fn interfaces(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let ports = api.ports_of(&server).await?.into_iter();
    let shown: Vec<Value> = ports.map(|port| attachment(&call, &port)).collect();
    ApiResponse::ok(&json!({ "interfaceAttachments": shown }))
}

async fn interface(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let wanted = call.path("port")?;
    let ports = api.ports_of(&server).await?;
    match ports.iter().find(|port| port.port.id.to_string() == wanted) {
        Some(port) => ApiResponse::ok(&json!({"interfaceAttachment": attachment(&call, port)})),
        None => Err(Fault::not_found(format!(
            "Instance {} does not have a port with id {}",
            server.uuid,
            bounded(wanted)
        ))),
    }
}

/// A port of a server.
struct AttachedPort {
    port: PortRecord,
    tag: Option<String>,
}

/// A port as an attached interface.
fn attachment(call: &ApiRequest, attached: &AttachedPort) -> Value {
    let port = &attached.port;
    let fixed_ips = port.fixed_ips.iter();
    let fixed_ips =
        fixed_ips.map(|ip| json!({"subnet_id": ip.subnet_id, "ip_address": ip.ip_address}));
    let mut shown = json!({
        "net_id": port.network_id,
        "port_id": port.id,
        "mac_addr": port.mac_address,
        "port_state": port.status,
        "fixed_ips": fixed_ips.collect::<Vec<_>>(),
    });
    if call.version.has(ATTACHMENT_TAGS) {
        shown["tag"] = json!(attached.tag);
    }
    shown
}

impl ComputeApi {
    /// The ports that the network service has for a server; none without such a service.
    async fn ports_of(&self, server: &ServerRecord) -> Result<Vec<AttachedPort>, Fault> {
        let conductor = &self.compute.inner.conductor;
        let Some(service) = conductor.networks() else {
            return Ok(Vec::new());
        };
        let filter = PortFilter {
            project: Some(server.project_id.clone()),
            device_id: Some(server.uuid.to_string()),
            ..PortFilter::default()
        };
        let ports = service.ports(&filter).await.map_err(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, server = %server.uuid, "the ports of a server are unknown");
            Fault::unavailable("The network service did not answer as expected.")
        })?;
        // Without the conductor's record there are no tags.
        let record = conductor.show(ConsumerUuid::from(server.uuid)).await.ok();
        let vifs = record.as_ref().map_or(&[][..], |record| record.vifs());
        let tag_of = |port: Uuid| {
            let vif = vifs.iter().find(|vif| vif.id == port)?;
            Some(vif.meta.get("tag")?.as_str()?.to_owned())
        };
        let attached = ports.into_iter().map(|port| AttachedPort {
            tag: tag_of(port.id),
            port,
        });
        Ok(attached.collect())
    }
}

async fn volumes(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.server(&call).await?;
    ApiResponse::ok(&json!({"volumeAttachments": []}))
}

async fn volume(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let server = api.server(&call).await?;
    let volume = bounded(call.path("volume")?);
    Err(Fault::not_found(format!(
        "volume_id not found: {volume} is not attached to instance {}",
        server.uuid
    )))
}

async fn security_groups(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.server(&call).await?;
    ApiResponse::ok(&json!({"security_groups": []}))
}

async fn migrations(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.server(&call).await?;
    ApiResponse::ok(&json!({"migrations": []}))
}

async fn password(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.server(&call).await?;
    ApiResponse::ok(&json!({"password": ""}))
}
