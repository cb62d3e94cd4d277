//! /internal/v1/hosts/{host}/service: an operator of the cloud disables or enables a host, or says that it is dead.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::BodyError;
use berth_wire::host_state::HostServiceBody;

use super::{hosts, not_valid};
use crate::compute_hosts::{HostError, ServiceStatus, ServiceUpdate};
use crate::policies;
use crate::router::Api;
use crate::store;

pub(super) fn fault(error: HostError) -> Fault {
    match error {
        HostError::Body(error) => not_valid(&error),
        HostError::NotFound { .. } => Fault::not_found(error.to_string()),
        HostError::Table(error) => store::fault(&error),
    }
}

fn update(body: HostServiceBody) -> Result<ServiceUpdate, BodyError> {
    let status = match (body.disabled, body.disabled_reason) {
        (Some(true), reason) => Some(ServiceStatus::Disabled { reason }),
        (Some(false), None) => Some(ServiceStatus::Enabled),
        (None, None) => None,
        (_, Some(_)) => {
            let reason = "a reason is only given with \"disabled\": true";
            return Err(BodyError::field("disabled_reason", reason));
        }
    };
    Ok(ServiceUpdate {
        status,
        forced_down: body.forced_down,
        cell: body.cell,
    })
}

pub(crate) async fn put(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, policies::SERVICE_UPDATE)?;
    let update = update(call.typed()?).map_err(|error| not_valid(&error))?;
    let host = api.hosts.update_service(call.path("host")?, update).await;
    Answer::ok(&hosts::shown(host.map_err(fault)?))
}
