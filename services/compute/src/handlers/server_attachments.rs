//! /v2.1/servers/{server}/ips, os-interface and os-volume_attachments: always empty, because this API has no network
//! and no volume service.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::json;

use crate::fields::bounded;
use crate::policies;
use crate::state::ComputeApi;

pub(crate) async fn addresses(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.server(&call, policies::IPS_INDEX).await?;
    ApiResponse::ok(&json!({"addresses": {}}))
}

pub(crate) async fn addresses_of(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.server(&call, policies::IPS_SHOW).await?;
    let network = bounded(call.path("network")?);
    Err(Fault::not_found(format!(
        "Instance has no network '{network}': this service does not know addresses."
    )))
}

pub(crate) async fn interfaces(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.server(&call, policies::INTERFACES_LIST).await?;
    ApiResponse::ok(&json!({"interfaceAttachments": []}))
}

pub(crate) async fn interface(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = api.server(&call, policies::INTERFACES_SHOW).await?;
    let port = bounded(call.path("port")?);
    Err(Fault::not_found(format!(
        "Instance {} does not have a port with id {port}",
        server.uuid
    )))
}

pub(crate) async fn volumes(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.server(&call, policies::VOLUMES_INDEX).await?;
    ApiResponse::ok(&json!({"volumeAttachments": []}))
}

pub(crate) async fn volume(
    State(api): State<ComputeApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    let server = api.server(&call, policies::VOLUMES_SHOW).await?;
    let volume = bounded(call.path("volume")?);
    Err(Fault::not_found(format!(
        "volume_id not found: {volume} is not attached to instance {}",
        server.uuid
    )))
}
