//! /internal/v1/hosts/{host}/changes: a long poll for agents, answered when an operator changes the desired state of a
//! host's devices.

use std::time::Duration;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::HostChanges;

use super::sql;
use crate::policies::HOST_DEVICES;
use crate::router::{AcceleratorApi, AcceleratorOperation};

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![AcceleratorOperation::get("/internal/v1/hosts/{host}/changes", show).rule(HOST_DEVICES)]
}

/// The longest wait, in seconds.
const LONGEST: u64 = 60;

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let wait = match call.query.last("wait").map(str::parse::<u64>) {
        None => 0,
        Some(Ok(seconds @ 0..=LONGEST)) => seconds,
        Some(_) => {
            let expected = format!("wait: expected whole seconds, 0 to {LONGEST}");
            return Err(Fault::bad_request(expected));
        }
    };
    let after = call.query.last("after").unwrap_or_default();
    let hosts = &accelerator.options.hosts;
    let wait = Duration::from_secs(wait);
    let host = call.path("host")?;
    let changes = hosts.changed(&accelerator.tables, host, after, wait).await;
    let changes = changes.map_err(sql)?;
    ApiResponse::ok(&HostChanges { changes })
}
