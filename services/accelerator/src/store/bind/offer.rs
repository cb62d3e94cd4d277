//! The free handles and properties of a resource provider, for a bind.

use berth_model::{Binding, ProviderUuid};
use berth_store::{SqlError, Statement, Transaction};

use super::BindRefusal;
use crate::store::{devices, handles};

/// A resource provider with its free handles.
pub(super) struct ProviderOffer {
    pub(super) deployable: i64,
    pub(super) hostname: String,
    pub(super) disabled: bool,
    pub(super) vanished: bool,
    pub(super) unhealthy: Option<String>,
    pub(super) resource_class: String,
    pub(super) programmable: bool,
    pub(super) held: bool,
    pub(super) being_programmed: bool,
    pub(super) wanted: usize,
    /// The next handle to use is last.
    pub(super) free: Vec<i64>,
}

/// Selects a provider with its properties.
const OFFER: &str = "SELECT d.id, v.hostname, v.status, v.vanished, d.vanished, d.health, \
     d.health_reason, d.resource_class, d.programmable, \
     EXISTS (SELECT 1 FROM attach_handles h WHERE h.deployable_id = d.id AND h.arq_id IS NOT NULL), \
     EXISTS (SELECT 1 FROM programmings p WHERE p.deployable_id = d.id AND p.ended = 0) FROM deployables d JOIN devices v ON v.id = d.device_id \
     WHERE d.rp_uuid = ?";

/// Loads a provider with up to this number of free handles.
pub(super) async fn offer(
    tx: &mut Transaction,
    provider: ProviderUuid,
    wanted: usize,
) -> Result<Option<ProviderOffer>, SqlError> {
    let Some(row) = tx
        .row(Statement::new(OFFER).bind(provider.to_string()))
        .await?
    else {
        return Ok(None);
    };
    let deployable = row.int(0)?;
    let mut free = handles::free(tx, deployable, wanted).await?;
    free.reverse();
    let unhealthy = match row.text(5)?.as_str() {
        "bad" => Some(
            row.opt_text(6)?
                .unwrap_or_else(|| "no reason given".to_owned()),
        ),
        _ => None,
    };
    Ok(Some(ProviderOffer {
        deployable,
        hostname: row.text(1)?,
        disabled: row.text(2)? != devices::ENABLED,
        vanished: row.int(3)? != 0 || row.int(4)? != 0,
        unhealthy,
        resource_class: row.text(7)?,
        programmable: row.int(8)? != 0,
        held: row.int(9)? != 0,
        being_programmed: row.int(10)? != 0,
        wanted,
        free,
    }))
}

impl ProviderOffer {
    /// Whether the device may be bound at all.
    pub(super) fn suits(&self, binding: &Binding) -> Result<(), BindRefusal> {
        let provider = binding.device_rp;
        if self.hostname != binding.hostname {
            return Err(BindRefusal::WrongHost {
                provider,
                is: self.hostname.clone(),
                named: binding.hostname.clone(),
            });
        }
        if self.vanished {
            return Err(BindRefusal::Vanished(provider));
        }
        if self.disabled {
            return Err(BindRefusal::Disabled(provider));
        }
        if self.being_programmed {
            return Err(BindRefusal::BeingProgrammed(provider));
        }
        match &self.unhealthy {
            Some(reason) => Err(BindRefusal::Sick {
                provider,
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }
}
