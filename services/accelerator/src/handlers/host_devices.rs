//! /internal/v1/hosts/{host}/devices: a host's agent reports its devices and learns what is wanted of them.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::HostDevices;

use super::{database, read};
use crate::policies;
use crate::report::Report;
use crate::router::Accelerator;
use crate::store::host_devices::Write;
use crate::store::known_devices;
use crate::store::strangers::Strangers;

pub(crate) async fn put(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let body: HostDevices = call.typed()?;
    let report = Report::new(call.path("host")?, body)
        .map_err(|error| Fault::bad_request(format!("JSON does not validate: {error}")))?;
    let (tables, write) = (&accelerator.tables, Write { report });
    let mut known = tables.write(&write).await.map_err(database)?;
    if let Some(guests) = &write.report.guests {
        let strangers = Strangers {
            host: &write.report.host,
            guests,
            grace: accelerator.options.orphan_grace,
        };
        let left = strangers.delete(tables).await.map_err(database)?;
        if left.deleted > 0 {
            let mut tx = read(tables).await?;
            let now = known_devices::of_host(&mut tx, &write.report.host).await;
            known.devices = now.map_err(database)?.devices;
        }
        known.not_taken.extend(left.not_taken);
    }
    Answer::ok(&known)
}

pub(crate) async fn show(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let host = call.path("host")?;
    let mut tx = read(&accelerator.tables).await?;
    let known = known_devices::of_host(&mut tx, host)
        .await
        .map_err(database)?;
    Answer::ok(&known)
}
