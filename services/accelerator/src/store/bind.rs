//! Binding and unbinding: one transaction for all requests of a patch.
//!
//! A bind takes a handle for each request or none at all. Where it cannot have them, that is a fact to be kept and told: the
//! requests become `BindFailed`, in the same transaction as their events, and nothing of theirs is held. A patch that makes
//! no sense (a request that is bound already, another guest's) changes nothing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use berth_model::{ArqPhase, ArqUuid, Binding, ConsumerUuid, DeviceProfileGroup, ProviderUuid};
use berth_store::{SqlError, Statement, Transaction, Work};
use berth_wire::accelerator::BindPatch;
use berth_wire::compute::EventStatus;

use super::arqs::{self, ArqError, ArqRow, Scope, Steps, write_state};
use super::device_profiles::{self, Key};
use super::{events, handles};

/// Why the requests of a patch got no handles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindRefused {
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
    #[error("The device of resource provider {0} is not there any more")]
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
        "Group {group} of device profile {profile} asks for a device to be programmed, which this service does not do"
    )]
    Programming { profile: String, group: u32 },
    #[error(
        "AttachHandle not found: resource provider {provider} has {free} free of {wanted} wanted"
    )]
    Exhausted {
        provider: ProviderUuid,
        free: usize,
        wanted: usize,
    },
}

/// What came of a patch.
#[derive(Debug)]
pub(crate) enum Patched {
    /// All of it was done.
    Done,
    /// The requests are `BindFailed` and hold nothing.
    Refused(BindRefused),
}

/// One patch: all of its requests are bound, or all unbound.
pub(crate) struct Patch {
    pub(crate) patches: BTreeMap<ArqUuid, BindPatch>,
    pub(crate) scope: Scope,
}

impl Work for Patch {
    type Output = Patched;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<Patched, ArqError> {
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
                }) => wanted.push(Wanted {
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
            return Ok(Patched::Done);
        }
        bind(tx, &wanted).await
    }
}

/// A request that is to be bound.
struct Wanted {
    row: ArqRow,
    binding: Binding,
    project_id: String,
}

/// Gives the handles of requests back.
pub(crate) async fn unbind(tx: &mut Transaction, rows: &[ArqRow]) -> Result<(), ArqError> {
    handles::release(tx, rows).await?;
    events::forget(tx, rows.iter().map(|row| row.arq.uuid)).await?;
    for row in rows {
        // Who did not hear the answer asks again.
        if row.arq.state.phase() == ArqPhase::Unbound {
            continue;
        }
        let steps = Steps::through(row, &[ArqPhase::Unbound])?;
        write_state(tx, row, steps, None, &row.arq.project_id).await?;
    }
    Ok(())
}

async fn bind(tx: &mut Transaction, wanted: &[Wanted]) -> Result<Patched, ArqError> {
    check_instances(tx, wanted).await?;
    let bound = steps_of(wanted, ArqPhase::Bound)?;
    let failed = steps_of(wanted, ArqPhase::BindFailed)?;
    let (outcome, steps, status) = match choose(tx, wanted).await? {
        Ok(chosen) => {
            for (want, handle) in wanted.iter().zip(chosen) {
                handles::take(tx, handle, want.row.id).await?;
            }
            (Patched::Done, bound, EventStatus::Completed)
        }
        Err(refused) => (Patched::Refused(refused), failed, EventStatus::Failed),
    };
    for (want, steps) in wanted.iter().zip(steps) {
        let binding = Some(&want.binding);
        write_state(tx, &want.row, steps, binding, &want.project_id).await?;
    }
    let told: Vec<(ConsumerUuid, ArqUuid)> = wanted
        .iter()
        .map(|want| (want.binding.instance, want.row.arq.uuid))
        .collect();
    events::tell(tx, &told, status).await?;
    Ok(outcome)
}

/// The way of each request to the end of its bind. One whose bind failed goes by `Unbound`, so that it can be bound again.
fn steps_of(wanted: &[Wanted], end: ArqPhase) -> Result<Vec<Steps>, ArqError> {
    let through = |want: &Wanted| match want.row.arq.state.phase() {
        ArqPhase::BindFailed => {
            Steps::through(&want.row, &[ArqPhase::Unbound, ArqPhase::BindStarted, end])
        }
        _ => Steps::through(&want.row, &[ArqPhase::BindStarted, end]),
    };
    wanted.iter().map(through).collect()
}

/// The requests of one guest.
pub(crate) const OF_INSTANCE: &str =
    "SELECT uuid, state FROM accelerator_requests WHERE instance_uuid = ?";

/// A guest's requests are bound all at once: one that has others, or bound ones, gets no more.
async fn check_instances(tx: &mut Transaction, wanted: &[Wanted]) -> Result<(), ArqError> {
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

/// A free handle for each request, in their order; or why there is none.
async fn choose(
    tx: &mut Transaction,
    wanted: &[Wanted],
) -> Result<Result<Vec<i64>, BindRefused>, ArqError> {
    let mut counts: BTreeMap<ProviderUuid, usize> = BTreeMap::new();
    for want in wanted {
        *counts.entry(want.binding.device_rp).or_default() += 1;
    }
    let mut offers: BTreeMap<ProviderUuid, Offer> = BTreeMap::new();
    for (provider, count) in counts {
        let Some(offer) = offer(tx, provider, count).await? else {
            return Ok(Err(BindRefused::UnknownProvider(provider)));
        };
        offers.insert(provider, offer);
    }
    let mut groups = Groups::default();
    for want in wanted {
        let Some(offer) = offers.get(&want.binding.device_rp) else {
            return Ok(Err(BindRefused::UnknownProvider(want.binding.device_rp)));
        };
        if let Err(refused) = offer.suits(&want.binding) {
            return Ok(Err(refused));
        }
        let asked = groups.asked(tx, &want.row).await?;
        if let Err(refused) = asked.suits(&want.binding, offer) {
            return Ok(Err(refused));
        }
    }
    for (provider, offer) in &offers {
        if offer.free.len() < offer.wanted {
            return Ok(Err(BindRefused::Exhausted {
                provider: *provider,
                free: offer.free.len(),
                wanted: offer.wanted,
            }));
        }
    }
    let taken = wanted.iter().filter_map(|want| {
        let offer = offers.get_mut(&want.binding.device_rp)?;
        offer.free.pop()
    });
    Ok(Ok(taken.collect()))
}

/// What a provider has to offer.
struct Offer {
    hostname: String,
    disabled: bool,
    vanished: bool,
    sick: Option<String>,
    resource_class: String,
    wanted: usize,
    /// The next to be taken is last.
    free: Vec<i64>,
}

/// A provider, as a bind looks at it.
pub(crate) const OFFER: &str = "SELECT d.id, v.hostname, v.status, v.vanished, d.vanished, d.health, \
     d.health_reason, d.resource_class FROM deployables d JOIN devices v ON v.id = d.device_id \
     WHERE d.rp_uuid = ?";

async fn offer(
    tx: &mut Transaction,
    provider: ProviderUuid,
    wanted: usize,
) -> Result<Option<Offer>, SqlError> {
    let Some(row) = tx
        .row(Statement::new(OFFER).bind(provider.to_string()))
        .await?
    else {
        return Ok(None);
    };
    let mut free = handles::free(tx, row.int(0)?, wanted).await?;
    free.reverse();
    let sick = match row.text(5)?.as_str() {
        "bad" => Some(
            row.opt_text(6)?
                .unwrap_or_else(|| "no reason given".to_owned()),
        ),
        _ => None,
    };
    Ok(Some(Offer {
        hostname: row.text(1)?,
        disabled: row.text(2)? != super::devices::ENABLED,
        vanished: row.int(3)? != 0 || row.int(4)? != 0,
        sick,
        resource_class: row.text(7)?,
        wanted,
        free,
    }))
}

impl Offer {
    fn suits(&self, binding: &Binding) -> Result<(), BindRefused> {
        let provider = binding.device_rp;
        if self.hostname != binding.hostname {
            return Err(BindRefused::WrongHost {
                provider,
                is: self.hostname.clone(),
                named: binding.hostname.clone(),
            });
        }
        if self.vanished {
            return Err(BindRefused::Vanished(provider));
        }
        if self.disabled {
            return Err(BindRefused::Disabled(provider));
        }
        match &self.sick {
            Some(reason) => Err(BindRefused::Sick {
                provider,
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// What the groups of the patch's profiles ask for.
#[derive(Default)]
struct Groups {
    known: BTreeMap<(i64, u32), Asked>,
}

struct Asked {
    profile: String,
    group: u32,
    classes: Vec<String>,
    programming: bool,
}

impl Groups {
    async fn asked(&mut self, tx: &mut Transaction, row: &ArqRow) -> Result<&Asked, ArqError> {
        let key = (row.profile_id, row.arq.group_id);
        match self.known.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Asked::read(tx, row).await?)),
        }
    }
}

impl Asked {
    async fn read(tx: &mut Transaction, row: &ArqRow) -> Result<Self, ArqError> {
        let name = row.arq.device_profile.as_str().to_owned();
        let profile = device_profiles::get(tx, &Key::Name(name.clone())).await?;
        let groups = profile.groups()?;
        let index = usize::try_from(row.arq.group_id).unwrap_or(usize::MAX);
        let group = groups.as_slice().get(index);
        let classes = group.into_iter().flat_map(DeviceProfileGroup::resources);
        let programs = |group: &DeviceProfileGroup| {
            let keys = ["accel:bitstream_id", "accel:function_id"];
            keys.iter().any(|key| group.get(key).is_some())
        };
        Ok(Self {
            profile: name,
            group: row.arq.group_id,
            classes: classes.map(|(class, _)| class.to_owned()).collect(),
            programming: group.is_some_and(programs),
        })
    }

    fn suits(&self, binding: &Binding, offer: &Offer) -> Result<(), BindRefused> {
        if self.programming {
            return Err(BindRefused::Programming {
                profile: self.profile.clone(),
                group: self.group,
            });
        }
        if self.classes.contains(&offer.resource_class) {
            return Ok(());
        }
        Err(BindRefused::WrongClass {
            provider: binding.device_rp,
            offers: offer.resource_class.clone(),
        })
    }
}
