//! /internal/v1/hosts/{host}/devices: a host's agent reports its devices and learns what is wanted of them.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::HostDevices;

use super::{database, read};
use crate::policies;
use crate::report::Report;
use crate::router::Accelerator;
use crate::store::host_devices::{HostError, Write};
use crate::store::known_devices;

fn fault(error: HostError) -> Fault {
    match error {
        HostError::ProviderElsewhere { .. } | HostError::HandleElsewhere(_) => {
            Fault::conflict(error.to_string())
        }
        HostError::Arq(error) => Fault::conflict(error.to_string()),
        HostError::Read(error) => database(error),
    }
}

pub(crate) async fn put(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let body: HostDevices = call.typed()?;
    let report = Report::new(call.path("host")?, body)
        .map_err(|error| Fault::bad_request(format!("JSON does not validate: {error}")))?;
    let write = Write {
        report,
        grace: accelerator.options.orphan_grace,
    };
    let known = accelerator.store.write(&write).await.map_err(fault)?;
    Answer::ok(&known)
}

pub(crate) async fn show(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let mut tx = read(&accelerator.store).await?;
    let known = known_devices::of_host(&mut tx, call.path("host")?)
        .await
        .map_err(database)?;
    Answer::ok(&known)
}
