//! A guest's boot: `Requested → Placed → Provided → Bound →` built. Each step takes the former by value and gives the next one,
//! or an error; each is written down before it acts, looks before it acts where it may have acted before, and may be done again.
//! The undo is owned by the journal's rows, not by the error: a row survives a kill.

mod accelerators;
mod build;
mod error;
mod nearest;
mod place;
mod told;

use std::collections::BTreeMap;

use berth_client::placement::Claimed;
use berth_model::{ArqUuid, ConsumerUuid};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use error::BootError;
pub use told::NoHostWhy;

use crate::journal::{BootRecord, Chosen};
use crate::metrics::BootStage;
use crate::way::Way;

/// A guest that is asked for.
pub(crate) struct Requested {
    record: BootRecord,
}

/// A guest whose resources are its own.
#[must_use]
pub(crate) struct Placed {
    record: BootRecord,
    chosen: Chosen,
    claimed: Claimed,
}

/// A guest with accelerator requests, each with its group; none where it has no device profile.
#[must_use]
pub(crate) struct Provided {
    placed: Placed,
    arqs: BTreeMap<ArqUuid, u32>,
}

/// A guest whose accelerator requests are bound, or being bound, where its claim is.
#[must_use]
pub(crate) struct Bound {
    provided: Provided,
}

impl Requested {
    /// The whole way. `cancel` ends it between two steps, or in its wait for the agent.
    pub(crate) async fn boot(
        record: BootRecord,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<(), BootError> {
        let place = Self { record }.place(way, cancel);
        let placed = timed(way, BootStage::Place, place).await?;
        called_off(cancel)?;
        let provided = timed(way, BootStage::Provide, placed.provide(way)).await?;
        called_off(cancel)?;
        let bound = timed(way, BootStage::Bind, provided.bind(way)).await?;
        called_off(cancel)?;
        timed(way, BootStage::Build, bound.build(way, cancel)).await
    }
}

impl Placed {
    fn place(&self) -> (ConsumerUuid, u32) {
        (self.record.request.uuid(), self.record.attempt)
    }
}

/// A stage to its end, with the time it took.
async fn timed<T>(
    way: &Way,
    stage: BootStage,
    step: impl Future<Output = Result<T, BootError>>,
) -> Result<T, BootError> {
    let begun = Instant::now();
    let done = step.await?;
    way.metrics.staged(stage, begun.elapsed());
    Ok(done)
}

fn called_off(cancel: &CancellationToken) -> Result<(), BootError> {
    if cancel.is_cancelled() {
        Err(BootError::Cancelled)
    } else {
        Ok(())
    }
}
