//! What is known of the devices' providers in Placement.

use std::collections::BTreeMap;

use berth_model::ProviderUuid;
use berth_store::{Disposition, Retryable, SqlError, Statement, Transaction, Work};

use super::{ReadError, now, typed};

/// The providers of each host, and whether each was seen missing.
pub(crate) type Hosts = BTreeMap<String, BTreeMap<ProviderUuid, Seen>>;

/// Whether Placement has a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    There,
    Missing,
}

/// The providers of all devices that have not vanished.
pub(crate) async fn of_hosts(tx: &mut Transaction) -> Result<Hosts, ReadError> {
    let sql = "SELECT v.hostname, d.rp_uuid, d.provider_missing FROM deployables d \
               JOIN devices v ON v.id = d.device_id WHERE d.vanished = 0";
    let mut hosts = Hosts::new();
    for row in tx.rows(Statement::new(sql)).await? {
        let provider = typed(&row.text(1)?, "deployables", "rp_uuid")?;
        let seen = match row.int(2)? {
            0 => Seen::There,
            _ => Seen::Missing,
        };
        hosts
            .entry(row.text(0)?)
            .or_default()
            .insert(provider, seen);
    }
    Ok(hosts)
}

/// Writes what was seen of providers.
pub(crate) struct Write(pub(crate) Vec<(ProviderUuid, Seen)>);

/// Why that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("what Placement has cannot be written")]
pub(crate) struct WriteError(#[from] SqlError);

impl Retryable for WriteError {
    fn disposition(&self) -> Disposition {
        super::retry(&self.0)
    }
}

impl Work for Write {
    type Output = ();
    type Error = WriteError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), WriteError> {
        for (provider, seen) in &self.0 {
            let sql =
                "UPDATE deployables SET provider_missing = ?, updated_at = ? WHERE rp_uuid = ?";
            let missing = match seen {
                Seen::There => 0_i64,
                Seen::Missing => 1,
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
