//! What a server is plugged into that others keep: addresses, ports and volumes. There is no network and no volume service behind
//! this API, so no server has any that is known here.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use serde_json::json;

use crate::fields::bounded;
use crate::policies;
use crate::router::Api;

pub(crate) async fn addresses(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.server(&call, policies::IPS_INDEX).await?;
    Answer::ok(&json!({"addresses": {}}))
}

pub(crate) async fn addresses_of(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.server(&call, policies::IPS_SHOW).await?;
    let network = bounded(call.path("network")?);
    Err(Fault::not_found(format!(
        "Instance has no network '{network}': addresses are not known here."
    )))
}

pub(crate) async fn interfaces(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.server(&call, policies::INTERFACES_LIST).await?;
    Answer::ok(&json!({"interfaceAttachments": []}))
}

pub(crate) async fn interface(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::INTERFACES_SHOW).await?;
    let port = bounded(call.path("port")?);
    Err(Fault::not_found(format!(
        "Instance {} does not have a port with id {port}",
        server.uuid
    )))
}

pub(crate) async fn volumes(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.server(&call, policies::VOLUMES_INDEX).await?;
    Answer::ok(&json!({"volumeAttachments": []}))
}

pub(crate) async fn volume(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let server = api.server(&call, policies::VOLUMES_SHOW).await?;
    let volume = bounded(call.path("volume")?);
    Err(Fault::not_found(format!(
        "volume_id not found: {volume} is not attached to instance {}",
        server.uuid
    )))
}
