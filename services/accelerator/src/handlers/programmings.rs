//! /internal/v1/hosts/{host}/programmings: lists due programmings for an agent and takes their results.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::ProgrammingEnd;

use super::{accelerator_requests, database, read, uuid};
use crate::policies::HOST_DEVICES;
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::programmings::{self, EndProgramming};

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/internal/v1/hosts/{host}/programmings", list)
            .rule(HOST_DEVICES),
        AcceleratorOperation::post("/internal/v1/hosts/{host}/programmings/{uuid}", end)
            .rule(HOST_DEVICES),
    ]
}

async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let mut tx = read(&accelerator.tables).await?;
    let due = programmings::due(&mut tx, call.path("host")?)
        .await
        .map_err(database)?;
    ApiResponse::ok(&due)
}

/// Accepts a result even if no request waits for it, so that the agent can forget it.
async fn end(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
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
        accelerator.notify();
    }
    accelerator.programmed.notify_waiters();
    Ok(ApiResponse::no_content())
}
