//! Typestate of a boot attempt: `RequestedBoot -> PlacedBoot -> ProvidedBoot -> BoundBoot -> NetworkedBoot -> built`.
//!
//! ```text
//! RequestedBoot --place-> PlacedBoot --provide-> ProvidedBoot --bind-> BoundBoot --network-> NetworkedBoot --build-> guest runs
//!                (claim)            (ARQs exist)          (ARQs bound)         (ports bound)              (agent)
//! ```
//!
//! Each step consumes the previous state. It is recorded in the journal before it acts, checks what an earlier run
//! already did, and is idempotent. Undo works on the journal's rows, not on errors, because the rows survive a crash.

mod accelerators;
mod build;
mod error;
mod numa_distance;
mod place;
mod ports;
mod user_message;

use std::collections::BTreeMap;
use std::pin::Pin;

use berth_client::placement::GrantedClaim;
use berth_model::{ArqUuid, ConsumerUuid};
use berth_wire::network_info::VifBody;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use error::{BootError, NoHostReason};
pub(crate) use place::claimed_amounts;
pub(crate) use ports::{
    PORT_TRIES, bind_port, binding, checked_function, create_port, created_port, give_port,
    own_port, ports_of_guest,
};

use crate::boot_context::BootContext;
use crate::journal::{BootRecord, ChosenHost};
use crate::metrics::BootStage;

/// A boot attempt before its claim.
pub(crate) struct RequestedBoot {
    record: BootRecord,
}

/// A boot attempt with claimed resources.
#[must_use]
pub(crate) struct PlacedBoot {
    record: BootRecord,
    chosen: ChosenHost,
    claimed: GrantedClaim,
}

/// A boot attempt with ARQs, each with the number of its request group; no ARQs without a device profile.
#[must_use]
pub(crate) struct ProvidedBoot {
    placed: PlacedBoot,
    arqs: BTreeMap<ArqUuid, u32>,
}

/// A boot attempt with ARQs that are bound, or being bound, to the claimed providers.
#[must_use]
pub(crate) struct BoundBoot {
    provided: ProvidedBoot,
}

/// A boot attempt with ports that are bound to the host; none without requested networks.
#[must_use]
pub(crate) struct NetworkedBoot {
    bound: BoundBoot,
    vifs: Vec<VifBody>,
}

impl RequestedBoot {
    /// Runs all steps. `cancel` ends the boot between two steps, or while it waits for the agent.
    pub(crate) async fn boot(
        record: BootRecord,
        context: &BootContext,
        cancel: &CancellationToken,
    ) -> Result<(), BootError> {
        let project = record.request.project_id().to_owned();
        let permit = tokio::select! {
            permit = context.boots.acquire(project) => permit,
            () = cancel.cancelled() => return Err(BootError::Cancelled),
        };
        let place = || Self { record }.place(context, cancel);
        let placed = timed(context, BootStage::Place, place).await?;
        check_cancelled(cancel)?;
        let provide = || placed.provide(context);
        let provided = timed(context, BootStage::Provide, provide).await?;
        check_cancelled(cancel)?;
        let bound = timed(context, BootStage::Bind, || provided.bind(context)).await?;
        check_cancelled(cancel)?;
        let network = || bound.network(context);
        let networked = timed(context, BootStage::Network, network).await?;
        check_cancelled(cancel)?;
        let build = || networked.build(context, cancel, permit);
        timed(context, BootStage::Build, build).await
    }
}

impl PlacedBoot {
    /// The guest and the attempt, by which the journal records steps.
    fn place(&self) -> (ConsumerUuid, u32) {
        (self.record.request.uuid(), self.record.attempt)
    }
}

/// Runs a stage and records its duration if it succeeds.
async fn timed<T, F: Future<Output = Result<T, BootError>>>(
    context: &BootContext,
    stage: BootStage,
    step: impl FnOnce() -> F,
) -> Result<T, BootError> {
    let begun = Instant::now();
    let done = on_the_heap(step).await?;
    context.metrics.record_stage(stage, begun.elapsed());
    Ok(done)
}

/// Creates a future on the heap. In a debug build, the futures of all stages would otherwise be on the stack at the same time, which
/// is too much for a thread of the runtime.
fn on_the_heap<F>(create: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(create())
}

fn check_cancelled(cancel: &CancellationToken) -> Result<(), BootError> {
    if cancel.is_cancelled() {
        Err(BootError::Cancelled)
    } else {
        Ok(())
    }
}
