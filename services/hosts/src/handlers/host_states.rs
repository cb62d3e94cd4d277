//! /internal/v1/hosts/{host}/state and …/seen: a host's agent tells how its host is, and that it lives.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::host_state::{HostSeenBody, HostStateBody};

use super::not_valid;
use crate::host_states::HostStateError;
use crate::policies;
use crate::router::Api;
use crate::store;

fn fault(error: HostStateError) -> Fault {
    match error {
        HostStateError::Body(error) => not_valid(&error),
        HostStateError::Elsewhere { .. }
        | HostStateError::OtherState { .. }
        | HostStateError::Outrun { .. } => Fault::conflict(error.to_string()),
        HostStateError::NotFound { .. } => Fault::not_found(error.to_string()),
        HostStateError::Table(error) => store::fault(&error),
    }
}

pub(crate) async fn put(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::STATE_UPDATE)?;
    let body: HostStateBody = call.typed()?;
    let wanted = api.hosts.tell(call.path("host")?, body).await;
    Answer::ok(&wanted.map_err(fault)?)
}

pub(crate) async fn seen(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::STATE_UPDATE)?;
    let body: HostSeenBody = call.typed()?;
    let wanted = api.hosts.seen(call.path("host")?, &body.state).await;
    Answer::ok(&wanted.map_err(fault)?)
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::STATE_GET)?;
    let told = api.hosts.told(call.path("host")?).await;
    Answer::ok(&told.map_err(fault)?)
}
