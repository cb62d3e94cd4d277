//! Adopts requests that another accelerator service (Cyborg) has bound, so that guests keep their devices when that
//! service is replaced.
//!
//! Each request is adopted or refused on its own, and adopting it again changes nothing. A handle that is waiting to be
//! cleaned is assigned nevertheless, because the guest already has the device.

use berth_model::{Arq, ArqState, AttachHandle, Binding};
use berth_store::{Statement, Transaction, Work};
use berth_wire::accelerator::{AdoptedArqs, NotAdopted};

use super::arqs::{self, ArqError, ArqScope, LONGEST_PROJECT};
use super::device_profiles::{self, ProfileError, ProfileKey};
use super::{handles, now};

/// Why a request is not adopted.
#[derive(Debug, thiserror::Error)]
enum AdoptionRefusal {
    #[error("its state is {0}; only bound requests can be adopted")]
    NotBound(&'static str),
    #[error("a request of this UUID is here, and is another one")]
    Another,
    #[error("its project_id has more than {LONGEST_PROJECT} characters")]
    LongProject,
    #[error("there is no device profile {0} here")]
    NoProfile(String),
    #[error("device profile {profile} has no group {group} here")]
    NoGroup { profile: String, group: u32 },
    #[error(
        "no device of host {host} has resource provider {provider}: its agent has not reported it"
    )]
    NoProvider { host: String, provider: String },
    #[error("resource provider {provider} has no attach handle {handle} here")]
    NoHandle { provider: String, handle: String },
    #[error("attach handle {0} is held by another request")]
    Held(String),
}

/// Adopts requests; returns the outcome of each.
pub(crate) struct AdoptArqs {
    pub(crate) arqs: Vec<Arq>,
}

impl Work for AdoptArqs {
    type Output = AdoptedArqs;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<AdoptedArqs, ArqError> {
        let mut outcome = AdoptedArqs::default();
        for arq in &self.arqs {
            let uuid = *arq.uuid.as_uuid();
            match adopt(tx, arq).await? {
                Ok(()) => outcome.adopted.push(uuid),
                Err(refused) => outcome.not_taken.push(NotAdopted {
                    uuid,
                    reason: refused.to_string(),
                }),
            }
        }
        Ok(outcome)
    }
}

async fn adopt(tx: &mut Transaction, arq: &Arq) -> Result<Result<(), AdoptionRefusal>, ArqError> {
    let ArqState::Bound(binding, handle) = &arq.state else {
        return Ok(Err(AdoptionRefusal::NotBound(arq.state.phase().as_str())));
    };
    let here = arqs::of_uuids(tx, &ArqScope::All, &[arq.uuid]).await?;
    if let Some(row) = here.first() {
        return Ok(match is_same(&row.arq, arq) {
            true => Ok(()),
            false => Err(AdoptionRefusal::Another),
        });
    }
    if arq.project_id.chars().count() > LONGEST_PROJECT {
        return Ok(Err(AdoptionRefusal::LongProject));
    }
    let name = arq.device_profile.as_str().to_owned();
    let profile = match device_profiles::get(tx, &ProfileKey::Name(name.clone())).await {
        Ok(profile) => profile,
        Err(ProfileError::NotFound(_)) => return Ok(Err(AdoptionRefusal::NoProfile(name))),
        Err(error) => return Err(error.into()),
    };
    let group = usize::try_from(arq.group_id).unwrap_or(usize::MAX);
    if profile.groups()?.as_slice().get(group).is_none() {
        let (profile, group) = (name, arq.group_id);
        return Ok(Err(AdoptionRefusal::NoGroup { profile, group }));
    }
    let place = match free_handle(tx, binding, handle).await? {
        Ok(place) => place,
        Err(refused) => return Ok(Err(refused)),
    };
    let sql = "INSERT INTO accelerator_requests (uuid, state, device_profile_id, device_profile_group_id, project_id, \
               hostname, device_rp_uuid, instance_uuid, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let insert = Statement::new(sql)
        .bind(arq.uuid.to_string())
        .bind(arq.state.phase().as_str())
        .bind(profile.id)
        .bind(i64::from(arq.group_id))
        .bind(&arq.project_id)
        .bind(&binding.hostname)
        .bind(binding.device_rp.to_string())
        .bind(binding.instance.to_string())
        .bind(now())
        .bind(now());
    let id = tx.insert(insert, "id").await?;
    handles::take(tx, place, id).await?;
    Ok(Ok(()))
}

/// Whether a stored request equals the adopted one. Handles have different UUIDs in each service.
fn is_same(here: &Arq, adopted: &Arq) -> bool {
    let place = |arq: &Arq| {
        let handle = arq.state.attach_handle();
        handle.map(|handle| handle.info.to_string())
    };
    here.state.binding() == adopted.state.binding()
        && place(here) == place(adopted)
        && here.device_profile == adopted.device_profile
        && here.group_id == adopted.group_id
}

/// The free handle with the address of the adopted request's handle.
async fn free_handle(
    tx: &mut Transaction,
    binding: &Binding,
    handle: &AttachHandle,
) -> Result<Result<i64, AdoptionRefusal>, ArqError> {
    let provider = binding.device_rp.to_string();
    let sql = "SELECT d.id FROM deployables d JOIN devices v ON v.id = d.device_id WHERE d.rp_uuid = ? AND v.hostname = ?";
    let search = Statement::new(sql).bind(&provider).bind(&binding.hostname);
    let Some(row) = tx.row(search).await? else {
        let host = binding.hostname.clone();
        return Ok(Err(AdoptionRefusal::NoProvider { host, provider }));
    };
    let sql = "SELECT id, attach_type, attach_info, arq_id FROM attach_handles WHERE deployable_id = ? AND vanished = 0";
    let wanted = handle.info.to_string();
    for row in tx.rows(Statement::new(sql).bind(row.int(0)?)).await? {
        // Compare the address only; the network may differ.
        if handles::read_info(&row.text(1)?, &row.text(2)?)?.to_string() != wanted {
            continue;
        }
        return Ok(match row.opt_int(3)? {
            None => Ok(row.int(0)?),
            Some(_) => Err(AdoptionRefusal::Held(wanted)),
        });
    }
    Ok(Err(AdoptionRefusal::NoHandle {
        provider,
        handle: wanted,
    }))
}
