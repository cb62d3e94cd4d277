//! Binds and unbinds all requests of a PATCH in one transaction.
//!
//! A bind assigns a handle to each request or to none. If that is impossible, the requests become `BindFailed` and
//! their events are written in the same transaction. An invalid patch (a request that is already bound, or another
//! guest's) changes nothing. If a device must be programmed first, all requests hold their handles in `BindStarted`
//! until the host reports the result (`programmings`).

mod offer;
mod requirements;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_model::{ArqPhase, ArqUuid, Binding, ConsumerUuid, ProviderUuid};
use berth_store::{SqlTimestamp, Statement, Transaction, Work};
use berth_wire::accelerator::{BindPatch, Program};
use berth_wire::compute::EventStatus;

use super::arqs::{self, ArqError, ArqRow, ArqScope, ArqTransitions, write_state};
use super::{events, handles, programmings};
use offer::{ProviderOffer, offer};
use requirements::ProfileRequirements;

/// Why the requests of a patch got no handles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindRefusal {
    #[error("Deployable not found with resource provider uuid={0}")]
    UnknownProvider(ProviderUuid),
    #[error("Resource provider {provider} is on host {is}, not on {named}")]
    WrongHost {
        provider: ProviderUuid,
        is: String,
        named: String,
    },
    #[error("The device of resource provider {0} is disabled")]
    Disabled(ProviderUuid),
    #[error("The device of resource provider {0} no longer exists")]
    Vanished(ProviderUuid),
    #[error("The device of resource provider {provider} is not healthy: {reason}")]
    Sick {
        provider: ProviderUuid,
        reason: String,
    },
    #[error(
        "Resource provider {provider} offers {offers}, which the request's group does not ask for"
    )]
    WrongClass {
        provider: ProviderUuid,
        offers: String,
    },
    #[error(
        "Group {group} of device profile {profile} asks for a device to be programmed, which host {host} does not do ([accelerators] program_hook is not set there)"
    )]
    Programming {
        profile: String,
        group: u32,
        host: String,
    },
    #[error(
        "Group {group} of device profile {profile} asks for a bitstream and for a function; a device is programmed with one of them"
    )]
    TwoPrograms { profile: String, group: u32 },
    #[error("The device of resource provider {0} is to be programmed, and other requests hold it")]
    InUse(ProviderUuid),
    #[error("The device of resource provider {0} is being programmed")]
    BeingProgrammed(ProviderUuid),
    #[error(
        "AttachHandle not found: resource provider {provider} has {free} free of {wanted} wanted"
    )]
    Exhausted {
        provider: ProviderUuid,
        free: usize,
        wanted: usize,
    },
    #[error(
        "AttachHandle not found: resource provider {provider} has {free} free of {wanted} wanted; {unclean} more being \
         cleaned by host {host} before anybody gets them"
    )]
    Unclean {
        provider: ProviderUuid,
        free: usize,
        wanted: usize,
        unclean: usize,
        host: String,
    },
}

/// The outcome of a patch.
#[derive(Debug)]
pub(crate) enum PatchOutcome {
    Done,
    /// The requests are `BindFailed` and hold nothing.
    Refused(BindRefusal),
}

/// One patch: all of its requests are bound, or all unbound.
pub(crate) struct PatchArqs {
    pub(crate) patches: BTreeMap<ArqUuid, BindPatch>,
    pub(crate) scope: ArqScope,
    /// How long programming may take.
    pub(crate) bind_timeout: Duration,
}

impl Work for PatchArqs {
    type Output = PatchOutcome;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<PatchOutcome, ArqError> {
        let uuids: Vec<ArqUuid> = self.patches.keys().copied().collect();
        let rows = arqs::of_uuids(tx, &self.scope, &uuids).await?;
        let missing = arqs::missing(&uuids, &rows);
        if !missing.is_empty() {
            return Err(ArqError::NotFound(missing));
        }
        let mut wanted = Vec::new();
        let mut unbound = Vec::new();
        for row in rows {
            match self.patches.get(&row.arq.uuid) {
                Some(BindPatch::Bind {
                    binding,
                    project_id,
                }) => wanted.push(BindTarget {
                    binding: binding.clone(),
                    project_id: project_id
                        .clone()
                        .unwrap_or_else(|| row.arq.project_id.clone()),
                    row,
                }),
                Some(BindPatch::Unbind) | None => unbound.push(row),
            }
        }
        unbind(tx, &unbound).await?;
        if wanted.is_empty() {
            return Ok(PatchOutcome::Done);
        }
        bind(tx, &wanted, self.bind_timeout).await
    }
}

/// A request that is to be bound.
struct BindTarget {
    row: ArqRow,
    binding: Binding,
    project_id: String,
}

/// Gives the handles of requests back.
pub(crate) async fn unbind(tx: &mut Transaction, rows: &[ArqRow]) -> Result<(), ArqError> {
    programmings::leave(tx, rows).await?;
    handles::release(tx, rows).await?;
    events::delete(tx, rows.iter().map(|row| row.arq.uuid)).await?;
    for row in rows {
        // A repeated request, because the caller missed the first answer.
        if row.arq.state.phase() == ArqPhase::Unbound {
            continue;
        }
        let steps = ArqTransitions::through(row, &[ArqPhase::Unbound])?;
        write_state(tx, row, steps, None, &row.arq.project_id).await?;
    }
    Ok(())
}

async fn bind(
    tx: &mut Transaction,
    wanted: &[BindTarget],
    timeout: Duration,
) -> Result<PatchOutcome, ArqError> {
    use ArqPhase::{BindFailed, BindStarted, Bound};
    check_instances(tx, wanted).await?;
    let started = steps_of(wanted, &[BindStarted])?;
    let bound = steps_of(wanted, &[BindStarted, Bound])?;
    let failed = steps_of(wanted, &[BindStarted, BindFailed])?;
    let (outcome, steps, status) = match choose(tx, wanted).await? {
        Ok(chosen) => {
            for (want, chosen) in wanted.iter().zip(&chosen) {
                handles::take(tx, chosen.handle, want.row.id).await?;
            }
            if chosen.iter().any(|chosen| chosen.program.is_some()) {
                begin_programming(tx, wanted, chosen, timeout).await?;
                (PatchOutcome::Done, started, None)
            } else {
                (PatchOutcome::Done, bound, Some(EventStatus::Completed))
            }
        }
        Err(refused) => (
            PatchOutcome::Refused(refused),
            failed,
            Some(EventStatus::Failed),
        ),
    };
    for (want, steps) in wanted.iter().zip(steps) {
        let binding = Some(&want.binding);
        write_state(tx, &want.row, steps, binding, &want.project_id).await?;
    }
    let due_events: Vec<(ConsumerUuid, ArqUuid)> = wanted
        .iter()
        .map(|want| (want.binding.instance, want.row.arq.uuid))
        .collect();
    match status {
        Some(status) => events::insert(tx, &due_events, status).await?,
        // Pending events of an earlier attempt are obsolete.
        None => events::delete(tx, due_events.iter().map(|(_, arq)| *arq)).await?,
    }
    Ok(outcome)
}

async fn begin_programming(
    tx: &mut Transaction,
    wanted: &[BindTarget],
    chosen: Vec<ChosenHandle>,
    timeout: Duration,
) -> Result<(), ArqError> {
    let steps = wanted.iter().zip(chosen);
    let steps = steps.map(|(want, chosen)| programmings::ProgrammingStep {
        arq: want.row.id,
        deployable: chosen.deployable,
        program: chosen.program,
    });
    let steps: Vec<_> = steps.collect();
    programmings::begin(tx, &steps, SqlTimestamp::now().after(timeout)).await?;
    Ok(())
}

/// The state transitions of each request. A failed request passes through `Unbound`, so that it can be bound again.
fn steps_of(wanted: &[BindTarget], way: &[ArqPhase]) -> Result<Vec<ArqTransitions>, ArqError> {
    let through = |want: &BindTarget| match want.row.arq.state.phase() {
        ArqPhase::BindFailed => {
            ArqTransitions::through(&want.row, &[&[ArqPhase::Unbound], way].concat())
        }
        _ => ArqTransitions::through(&want.row, way),
    };
    wanted.iter().map(through).collect()
}

/// The requests of one guest.
const OF_INSTANCE: &str = "SELECT uuid, state FROM accelerator_requests WHERE instance_uuid = ?";

/// All requests of a guest are bound together: a guest with other or bound requests gets no more.
async fn check_instances(tx: &mut Transaction, wanted: &[BindTarget]) -> Result<(), ArqError> {
    let patched: BTreeSet<String> = wanted
        .iter()
        .map(|want| want.row.arq.uuid.to_string())
        .collect();
    let instances: BTreeSet<ConsumerUuid> =
        wanted.iter().map(|want| want.binding.instance).collect();
    for instance in instances {
        for row in tx
            .rows(Statement::new(OF_INSTANCE).bind(instance.to_string()))
            .await?
        {
            let again = row.text(1)? == ArqPhase::BindFailed.as_str();
            if !again || !patched.contains(&row.text(0)?) {
                return Err(ArqError::InstanceHasRequests(instance));
            }
        }
    }
    Ok(())
}

/// The handle chosen for a request.
struct ChosenHandle {
    handle: i64,
    deployable: i64,
    program: Option<Program>,
}

/// Chooses a free handle for each request, in order, or says why there is none.
async fn choose(
    tx: &mut Transaction,
    wanted: &[BindTarget],
) -> Result<Result<Vec<ChosenHandle>, BindRefusal>, ArqError> {
    let mut counts: BTreeMap<ProviderUuid, usize> = BTreeMap::new();
    for want in wanted {
        *counts.entry(want.binding.device_rp).or_default() += 1;
    }
    let mut offers: BTreeMap<ProviderUuid, ProviderOffer> = BTreeMap::new();
    for (provider, count) in counts {
        let Some(offer) = offer(tx, provider, count).await? else {
            return Ok(Err(BindRefusal::UnknownProvider(provider)));
        };
        offers.insert(provider, offer);
    }
    let mut groups = ProfileRequirements::default();
    let mut programs = Vec::new();
    for want in wanted {
        let Some(offer) = offers.get(&want.binding.device_rp) else {
            return Ok(Err(BindRefusal::UnknownProvider(want.binding.device_rp)));
        };
        if let Err(refused) = offer.suits(&want.binding) {
            return Ok(Err(refused));
        }
        let asked = groups.requirement(tx, &want.row).await?;
        match asked.suits(&want.binding, offer) {
            Ok(program) => programs.push(program),
            Err(refused) => return Ok(Err(refused)),
        }
    }
    for (provider, offer) in &offers {
        let (free, wanted) = (offer.free.len(), offer.wanted);
        if free >= wanted {
            continue;
        }
        let provider = *provider;
        let unclean = handles::unclean(tx, offer.deployable, wanted - free).await?;
        return Ok(Err(match free + unclean < wanted {
            true => BindRefusal::Exhausted {
                provider,
                free,
                wanted,
            },
            false => BindRefusal::Unclean {
                provider,
                free,
                wanted,
                unclean,
                host: offer.hostname.clone(),
            },
        }));
    }
    let taken = wanted.iter().zip(programs).filter_map(|(want, program)| {
        let offer = offers.get_mut(&want.binding.device_rp)?;
        Some(ChosenHandle {
            handle: offer.free.pop()?,
            deployable: offer.deployable,
            program,
        })
    });
    Ok(Ok(taken.collect()))
}
