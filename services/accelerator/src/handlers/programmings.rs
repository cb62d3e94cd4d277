//! /internal/v1/hosts/{host}/programmings: what a host's agent is to program, and what came of it.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::ProgrammingEnd;

use super::{accelerator_requests, database, read, uuid};
use crate::policies;
use crate::router::Accelerator;
use crate::store::programmings::{self, End};

pub(crate) async fn list(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let mut tx = read(&accelerator.tables).await?;
    let due = programmings::due(&mut tx, call.path("host")?)
        .await
        .map_err(database)?;
    Answer::ok(&due)
}

/// An end is taken even where nobody waits for it any more: the host is to forget it.
pub(crate) async fn end(
    State(accelerator): State<Accelerator>,
    call: Call,
) -> Result<Answer, Fault> {
    accelerator.allow(&call, policies::HOST_DEVICES)?;
    let body: ProgrammingEnd = call.typed()?;
    let end = End {
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
    Ok(Answer::no_content())
}
