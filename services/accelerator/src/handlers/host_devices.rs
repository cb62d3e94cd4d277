//! /internal/v1/hosts/{host}/devices: an agent reports its host's devices and gets their desired state.

use std::collections::BTreeSet;

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, is_provider_of_host};
use berth_model::{ProviderName, ProviderUuid};
use berth_wire::accelerator::HostDevicesReport;

use uuid::Uuid;

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
    if call.caller.only_host().is_some() {
        check_new_providers(&accelerator, &report).await?;
    }
    let (tables, write) = (&accelerator.tables, WriteReport { report });
    let mut known = tables.write(&write).await.map_err(database)?;
    if let Some(guests) = &write.report.guests {
        let of_unknown = ArqsOfUnknownInstances {
            host: &write.report.host,
            guests,
            grace: accelerator.options.orphan_grace,
        };
        let seen = &accelerator.unknown_instances;
        let left = of_unknown.delete(tables, seen).await.map_err(database)?;
        if left.deleted > 0 {
            let mut tx = read(tables).await?;
            let now = known_devices::of_host(&mut tx, &write.report.host).await;
            known.devices = now.map_err(database)?.devices;
        }
        known.not_taken.extend(left.not_taken);
    }
    ApiResponse::ok(&known)
}

/// Checks the providers of new deployables. Each must be in the host's tree, or have a UUID that derives from a name of
/// the host. Deployables that the host has reported already are not checked again.
async fn check_new_providers(
    accelerator: &AcceleratorApi,
    report: &DeviceReport,
) -> Result<(), Fault> {
    let Some(providers) = &accelerator.options.providers else {
        return Ok(());
    };
    let mut tx = read(&accelerator.tables).await?;
    let known = known_devices::of_host(&mut tx, &report.host).await;
    drop(tx);
    let known = known.map_err(database)?.devices;
    let known: BTreeSet<Uuid> = known
        .iter()
        .flat_map(|device| &device.deployables)
        .map(|deployable| deployable.rp_uuid)
        .collect();
    let reported = report.devices.iter().flat_map(|device| &device.deployables);
    for deployable in reported.filter(|it| !known.contains(&it.rp_uuid)) {
        let (uuid, host) = (deployable.rp_uuid, &report.host);
        if is_named_after(&deployable.name, uuid, host) {
            continue;
        }
        let root = providers.provider_root(uuid).await.map_err(|error| {
            tracing::warn!(provider = %uuid, error = &*error as &dyn std::error::Error, "looking up a device's resource provider failed");
            Fault::unavailable(format!("Cannot look up resource provider {uuid} in Placement."))
        })?;
        if !root.is_some_and(|root| is_provider_of_host(&root.name, host)) {
            return Err(Fault::forbidden(format!(
                "The account of host {host} may not report the resource provider {uuid} of deployable {}: it is not in the \
                 provider tree of host {host}.",
                deployable.name
            )));
        }
    }
    Ok(())
}

/// Whether the UUID derives from the name of the deployable, and the name from that of the host. Then no other host can
/// have the provider, and it may be missing in Placement.
fn is_named_after(name: &str, provider: Uuid, host: &str) -> bool {
    let derived = ProviderName::new(name).map(|name| ProviderUuid::of_deployable(&name));
    is_provider_of_host(name, host) && derived.is_ok_and(|it| *it.as_uuid() == provider)
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
