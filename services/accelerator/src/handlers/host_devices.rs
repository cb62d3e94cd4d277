//! /internal/v1/hosts/{host}/devices: an agent reports its host's devices and gets their desired state.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::HostDevicesReport;

use super::{database, read};
use crate::policies::HOST_DEVICES;
use crate::report::DeviceReport;
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::arqs_of_unknown_instances::ArqsOfUnknownInstances;
use crate::store::host_devices::WriteReport;
use crate::store::known_devices;

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/internal/v1/hosts/{host}/devices", show).rule(HOST_DEVICES),
        AcceleratorOperation::put("/internal/v1/hosts/{host}/devices", put)
            .rule(HOST_DEVICES)
            .large_body(),
    ]
}

async fn put(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let body: HostDevicesReport = call.typed()?;
    let report = DeviceReport::new(call.path("host")?, body)
        .map_err(|error| Fault::bad_request(format!("JSON does not validate: {error}")))?;
    let (tables, write) = (&accelerator.tables, WriteReport { report });
    let mut known = tables.write(&write).await.map_err(database)?;
    if let Some(guests) = &write.report.guests {
        let of_unknown = ArqsOfUnknownInstances {
            host: &write.report.host,
            guests,
            grace: accelerator.options.orphan_grace,
        };
        let left = of_unknown.delete(tables).await.map_err(database)?;
        if left.deleted > 0 {
            let mut tx = read(tables).await?;
            let now = known_devices::of_host(&mut tx, &write.report.host).await;
            known.devices = now.map_err(database)?.devices;
        }
        known.not_taken.extend(left.not_taken);
    }
    ApiResponse::ok(&known)
}

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let host = call.path("host")?;
    let mut tx = read(&accelerator.tables).await?;
    let known = known_devices::of_host(&mut tx, host)
        .await
        .map_err(database)?;
    ApiResponse::ok(&known)
}
