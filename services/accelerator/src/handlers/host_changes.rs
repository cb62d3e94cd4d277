//! /internal/v1/hosts/{host}/changes: an agent waits here until an operator wants something else of its host's devices.

use std::time::Duration;

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::HostChanges;

use super::sql;
use crate::policies;
use crate::router::Accelerator;

/// The longest wait, in seconds.
const LONGEST: u64 = 60;

pub(crate) async fn show(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let wait = match call.query.last("wait").map(str::parse::<u64>) {
        None => 0,
        Some(Ok(seconds @ 0..=LONGEST)) => seconds,
        Some(_) => {
            let expected = format!("wait: whole seconds are expected, 0 to {LONGEST}");
            return Err(Fault::bad_request(expected));
        }
    };
    let after = call.query.last("after").unwrap_or_default();
    let hosts = &accelerator.options.hosts;
    let wait = Duration::from_secs(wait);
    let host = call.path("host")?;
    let changes = hosts.changed(&accelerator.tables, host, after, wait).await;
    let changes = changes.map_err(sql)?;
    Answer::ok(&HostChanges { changes })
}
