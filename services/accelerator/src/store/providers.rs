//! The known state of the devices' resource providers in Placement.

use std::collections::BTreeMap;

use berth_model::ProviderUuid;
use berth_store::{Disposition, Retryable, SqlError, Statement, Transaction, Work};

use super::{AcceleratorTableError, now, typed};

/// The providers of each host, and whether each was seen missing.
pub(crate) type ProvidersByHost = BTreeMap<String, BTreeMap<ProviderUuid, ProviderPresence>>;

/// Whether Placement has a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProviderPresence {
    There,
    Missing,
}

/// The providers of all devices that have not vanished.
pub(crate) async fn of_hosts(
    tx: &mut Transaction,
) -> Result<ProvidersByHost, AcceleratorTableError> {
    let sql = "SELECT v.hostname, d.rp_uuid, d.provider_missing FROM deployables d \
               JOIN devices v ON v.id = d.device_id WHERE d.vanished = 0";
    let mut hosts = ProvidersByHost::new();
    for row in tx.rows(Statement::new(sql)).await? {
        let provider = typed(&row.text(1)?, "deployables", "rp_uuid")?;
        let seen = match row.int(2)? {
            0 => ProviderPresence::There,
            _ => ProviderPresence::Missing,
        };
        hosts
            .entry(row.text(0)?)
            .or_default()
            .insert(provider, seen);
    }
    Ok(hosts)
}

/// Stores the observed state of providers.
pub(crate) struct RecordPresence(pub(crate) Vec<(ProviderUuid, ProviderPresence)>);

/// Why that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("storing the state of resource providers failed")]
pub(crate) struct PresenceError(#[from] SqlError);

impl Retryable for PresenceError {
    fn disposition(&self) -> Disposition {
        self.0.write_disposition()
    }
}

impl Work for RecordPresence {
    type Output = ();
    type Error = PresenceError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), PresenceError> {
        for (provider, seen) in &self.0 {
            let sql =
                "UPDATE deployables SET provider_missing = ?, updated_at = ? WHERE rp_uuid = ?";
            let missing = match seen {
                ProviderPresence::There => 0_i64,
                ProviderPresence::Missing => 1,
            };
            let update = Statement::new(sql)
                .bind(missing)
                .bind(now())
                .bind(provider.to_string());
            tx.execute(update).await?;
        }
        Ok(())
    }
}
