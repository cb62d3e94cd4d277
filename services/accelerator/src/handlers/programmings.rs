//! /internal/v1/hosts/{host}/programmings: lists due programmings for an agent and takes their results.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::ProgrammingEnd;

use super::{accelerator_requests, database, read, uuid};
use crate::policies;
use crate::router::AcceleratorApi;
use crate::store::programmings::{self, EndProgramming};

pub(crate) async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let mut tx = read(&accelerator.tables).await?;
    let due = programmings::due(&mut tx, call.path("host")?)
        .await
        .map_err(database)?;
    ApiResponse::ok(&due)
}

/// Accepts a result even if no request waits for it, so that the agent can forget it.
pub(crate) async fn end(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let body: ProgrammingEnd = call.typed()?;
    let end = EndProgramming {
        host: call.path("host")?.to_owned(),
        uuid: uuid(&call, "Programming")?,
        failure: body.error,
    };
    let settled = accelerator
        .tables
        .write(&end)
        .await
        .map_err(accelerator_requests::fault)?;
    if settled {
        accelerator.ring();
    }
    accelerator.programmed.notify_waiters();
    Ok(ApiResponse::no_content())
}
