//! What a server has of other services, and what this API does not do: /v2.1/servers/{server}/ips,
//! os-volume_attachments, migrations and os-server-password. All but addresses are always empty,
//! because clients read them without asking whether there is a volume service or a live migration.

use std::collections::BTreeMap;

use axum::extract::State;
use berth_http::fields::bounded;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::json;

use crate::microversions::SERVER_MIGRATIONS;
use crate::policies::{admin, reader};
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

async fn migrations(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.server(&call).await?;
    ApiResponse::ok(&json!({"migrations": []}))
}

async fn password(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.server(&call).await?;
    ApiResponse::ok(&json!({"password": ""}))
}
