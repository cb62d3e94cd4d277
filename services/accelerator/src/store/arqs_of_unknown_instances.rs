//! Deletes requests that are bound on a host to guests that the host neither has nor builds, because the service that
//! bound them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_model::ArqUuid;
use berth_store::{SqlTimestamp, Statement, Transaction, Work};
use berth_wire::accelerator::NotTaken;
use uuid::Uuid;

use super::arqs::{self, ArqError, ArqScope};
use super::{AcceleratorTableError, AcceleratorTables, typed};

const TABLE: &str = "accelerator_requests";

/// The requests that hold handles of a host's devices and were bound before a time.
const HOLDERS: &str = "SELECT a.uuid, coalesce(a.instance_uuid, ''), v.name FROM devices v \
     JOIN deployables d ON d.device_id = v.id JOIN attach_handles h ON h.deployable_id = d.id \
     JOIN accelerator_requests a ON a.id = h.arq_id WHERE v.hostname = ? AND a.updated_at < ? ORDER BY a.id";

/// A host with the guests that it has or builds. Requests of other guests may stay bound for the grace time.
pub(crate) struct ArqsOfUnknownInstances<'a> {
    pub(crate) host: &'a str,
    pub(crate) guests: &'a BTreeSet<Uuid>,
    pub(crate) grace: Duration,
}

/// The outcome of a deletion.
#[derive(Default)]
pub(crate) struct UnknownInstanceOutcome {
    /// How many requests were deleted.
    pub(crate) deleted: usize,
    /// The requests that could not be deleted.
    pub(crate) not_taken: Vec<NotTaken>,
}

impl ArqsOfUnknownInstances<'_> {
    /// Deletes the requests and releases their handles, one transaction per guest. A failure for one guest
    /// does not affect others.
    pub(crate) async fn delete(
        &self,
        store: &AcceleratorTables,
    ) -> Result<UnknownInstanceOutcome, AcceleratorTableError> {
        let before = SqlTimestamp::now().before(self.grace);
        let mut left = UnknownInstanceOutcome::default();
        let found = {
            let mut tx = store.read().await?;
            self.find(&mut tx, before).await?
        };
        for (guest, (device, requests)) in found {
            let delete = DeleteBoundArqs {
                host: self.host,
                guest: &guest,
                before,
            };
            match store.write(&delete).await {
                Ok(deleted) => {
                    tracing::warn!(
                        host = self.host,
                        guest,
                        device,
                        requests = deleted,
                        "accelerator requests of a guest that the host does not know are deleted"
                    );
                    left.deleted += deleted;
                }
                Err(error) => {
                    let reason = format!(
                        "{requests} accelerator requests of guest {guest}, which the host does not know, stay: {error}"
                    );
                    tracing::error!(
                        host = self.host,
                        device,
                        reason,
                        "a device stays assigned to an unknown guest"
                    );
                    let name = device;
                    left.not_taken.push(NotTaken { name, reason });
                }
            }
        }
        Ok(left)
    }

    /// The guests that the host does not know, as the table has them, with a device of each and the number of its requests.
    async fn find(
        &self,
        tx: &mut Transaction,
        before: SqlTimestamp,
    ) -> Result<BTreeMap<String, (String, usize)>, AcceleratorTableError> {
        let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
        let search = Statement::new(HOLDERS).bind(self.host);
        for row in tx.rows(search.bind(before)).await? {
            let (guest, device) = (row.text(1)?, row.text(2)?);
            let known = guest.parse().is_ok_and(|uuid| self.guests.contains(&uuid));
            if !known {
                let (_, requests) = found.entry(guest).or_insert((device, 0));
                *requests += 1;
            }
        }
        Ok(found)
    }
}

/// Deletes one guest's requests on a host; returns their number.
struct DeleteBoundArqs<'a> {
    host: &'a str,
    guest: &'a str,
    before: SqlTimestamp,
}

impl Work for DeleteBoundArqs<'_> {
    type Output = usize;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<usize, ArqError> {
        let search = Statement::new(HOLDERS).bind(self.host);
        let mut uuids: Vec<ArqUuid> = Vec::new();
        // Check owner and age again: a bind may have happened in between.
        for row in tx.rows(search.bind(self.before)).await? {
            if row.text(1)? == self.guest {
                uuids.push(typed(&row.text(0)?, TABLE, "uuid")?);
            }
        }
        let rows = arqs::of_uuids(tx, &ArqScope::All, &uuids).await?;
        arqs::delete(tx, &rows).await?;
        Ok(rows.len())
    }
}
