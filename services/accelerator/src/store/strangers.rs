//! Requests that are bound on a host for guests that it neither has nor builds: whoever bound them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_model::ArqUuid;
use berth_store::{Moment, Statement, Transaction, Work};
use berth_wire::accelerator::NotTaken;
use uuid::Uuid;

use super::arqs::{self, ArqError, Scope};
use super::{ReadError, Tables, typed};

const TABLE: &str = "accelerator_requests";

/// What holds handles of a host's devices, and was bound before a moment.
const HOLDERS: &str = "SELECT a.uuid, coalesce(a.instance_uuid, ''), v.name FROM devices v \
     JOIN deployables d ON d.device_id = v.id JOIN attach_handles h ON h.deployable_id = d.id \
     JOIN accelerator_requests a ON a.id = h.arq_id WHERE v.hostname = ? AND a.updated_at < ? ORDER BY a.id";

/// A host, the guests that it has or builds, and for how long a request may be bound there for another.
pub(crate) struct Strangers<'a> {
    pub(crate) host: &'a str,
    pub(crate) guests: &'a BTreeSet<Uuid>,
    pub(crate) grace: Duration,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Left {
    /// How many requests were deleted.
    pub(crate) deleted: usize,
    /// What could not be.
    pub(crate) not_taken: Vec<NotTaken>,
}

impl Strangers<'_> {
    /// Deletes them and gives their handles back, a guest's all at once. Those that cannot be deleted keep no others.
    pub(crate) async fn delete(&self, store: &Tables) -> Result<Left, ReadError> {
        let before = Moment::now().before(self.grace);
        let mut left = Left::default();
        let found = {
            let mut tx = store.read().await?;
            self.find(&mut tx, before).await?
        };
        for (guest, (device, requests)) in found {
            let delete = DeleteBound {
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
                    tracing::error!(host = self.host, device, reason, "a device stays held");
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
        before: Moment,
    ) -> Result<BTreeMap<String, (String, usize)>, ReadError> {
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

/// Deletes what one guest holds of a host; how many requests.
struct DeleteBound<'a> {
    host: &'a str,
    guest: &'a str,
    before: Moment,
}

impl Work for DeleteBound<'_> {
    type Output = usize;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<usize, ArqError> {
        let search = Statement::new(HOLDERS).bind(self.host);
        let mut uuids: Vec<ArqUuid> = Vec::new();
        // Whose they are once more, and since when: a bind may have come in between.
        for row in tx.rows(search.bind(self.before)).await? {
            if row.text(1)? == self.guest {
                uuids.push(typed(&row.text(0)?, TABLE, "uuid")?);
            }
        }
        let rows = arqs::of_uuids(tx, &Scope::All, &uuids).await?;
        arqs::delete(tx, &rows).await?;
        Ok(rows.len())
    }
}
