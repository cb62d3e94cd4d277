//! Deletes requests that are bound on a host to guests that the host neither has nor builds, because the service that
//! bound them is gone.
//!
//! A request is bound before its host knows the guest, and a report can reach this service after the host has accepted the
//! guest, but with the list of guests from before. Therefore one report proves nothing. A request is deleted only if all
//! reports of the grace time lack its guest. The grace time begins with the first of these reports and is measured by the
//! monotonic clock of this process. The age of the row is not used: if the wall clock jumped forward, every request would
//! look old enough, and the next report would take the device from a guest that is being built.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_model::ArqUuid;
use berth_store::{SqlError, Statement, Transaction, Work};
use berth_wire::accelerator::NotTaken;
use tokio::time::Instant;
use uuid::Uuid;

use super::arqs::{self, ArqError, ArqScope};
use super::{AcceleratorTableError, AcceleratorTables, typed};

const TABLE: &str = "accelerator_requests";

/// The requests that hold handles of a host's devices.
const HOLDERS: &str = "SELECT a.id, a.uuid, coalesce(a.instance_uuid, ''), a.updated_at, v.name FROM devices v \
     JOIN deployables d ON d.device_id = v.id JOIN attach_handles h ON h.deployable_id = d.id \
     JOIN accelerator_requests a ON a.id = h.arq_id WHERE v.hostname = ? ORDER BY a.id";

/// A request that holds a handle, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    uuid: String,
    guest: String,
    /// Changes with each bind.
    updated_at: Option<String>,
    device: String,
}

/// A bind of a request, and since when its guest is missing in all reports of the host.
#[derive(Debug)]
struct UnknownSince {
    guest: String,
    updated_at: Option<String>,
    since: Instant,
}

/// The requests of guests that were missing in the last report of their host, as this process sees them over time. Not
/// persistent: a restart begins a new grace time.
#[derive(Debug, Default)]
pub(crate) struct UnknownInstances {
    of_hosts: Mutex<BTreeMap<String, BTreeMap<i64, UnknownSince>>>,
}

impl UnknownInstances {
    /// Records a report that lacks the guests of these requests. Returns the overdue requests: all reports of the grace time
    /// lacked their guests.
    fn observe(
        &self,
        host: &str,
        unknown: BTreeMap<i64, Holder>,
        grace: Duration,
        now: Instant,
    ) -> BTreeMap<i64, Holder> {
        let mut of_hosts = self.of_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if unknown.is_empty() {
            of_hosts.remove(host);
            return unknown;
        }
        let seen = of_hosts.entry(host.to_owned()).or_default();
        seen.retain(|id, before| {
            let holder = unknown.get(id);
            holder.is_some_and(|it| it.guest == before.guest && it.updated_at == before.updated_at)
        });
        let overdue = unknown.into_iter().filter(|(id, holder)| {
            let first = seen.entry(*id).or_insert_with(|| UnknownSince {
                guest: holder.guest.clone(),
                updated_at: holder.updated_at.clone(),
                since: now,
            });
            now.duration_since(first.since) >= grace
        });
        overdue.collect()
    }
}

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
    /// Deletes the requests that are overdue and releases their handles, one transaction per guest. A failure for one guest
    /// does not affect others.
    pub(crate) async fn delete(
        &self,
        store: &AcceleratorTables,
        seen: &UnknownInstances,
    ) -> Result<UnknownInstanceOutcome, AcceleratorTableError> {
        let mut left = UnknownInstanceOutcome::default();
        let unknown = {
            let mut tx = store.read().await?;
            self.unknown(&mut tx).await?
        };
        let overdue = seen.observe(self.host, unknown, self.grace, Instant::now());
        let mut of_guests: BTreeMap<String, BTreeMap<i64, Holder>> = BTreeMap::new();
        for (id, holder) in overdue {
            let of_guest = of_guests.entry(holder.guest.clone()).or_default();
            of_guest.insert(id, holder);
        }
        for (guest, overdue) in of_guests {
            let device = overdue.values().next().map(|holder| holder.device.clone());
            let device = device.unwrap_or_default();
            let delete = DeleteBoundArqs {
                host: self.host,
                overdue: &overdue,
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
                    let requests = overdue.len();
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

    /// The requests of guests that the host does not know.
    async fn unknown(
        &self,
        tx: &mut Transaction,
    ) -> Result<BTreeMap<i64, Holder>, AcceleratorTableError> {
        let mut holders = holders(tx, self.host).await?;
        holders.retain(|_, holder| {
            let guest = holder.guest.parse();
            !guest.is_ok_and(|uuid| self.guests.contains(&uuid))
        });
        Ok(holders)
    }
}

async fn holders(
    tx: &mut Transaction,
    host: &str,
) -> Result<BTreeMap<i64, Holder>, AcceleratorTableError> {
    let mut holders = BTreeMap::new();
    for row in tx.rows(Statement::new(HOLDERS).bind(host)).await? {
        let updated_at = match row.opt_moment(3) {
            // An invalid date must not make the row unreadable.
            Err(SqlError::Column { .. }) => None,
            moment => moment?.map(|moment| moment.to_string()),
        };
        let holder = Holder {
            uuid: row.text(1)?,
            guest: row.text(2)?,
            updated_at,
            device: row.text(4)?,
        };
        holders.insert(row.int(0)?, holder);
    }
    Ok(holders)
}

/// Deletes requests of one guest on a host; returns their number.
struct DeleteBoundArqs<'a> {
    host: &'a str,
    overdue: &'a BTreeMap<i64, Holder>,
}

impl Work for DeleteBoundArqs<'_> {
    type Output = usize;
    type Error = ArqError;

    async fn run(&self, tx: &mut Transaction) -> Result<usize, ArqError> {
        let mut uuids: Vec<ArqUuid> = Vec::new();
        // Check again: a bind may have happened in between.
        for (id, holder) in holders(tx, self.host).await? {
            if self.overdue.get(&id) == Some(&holder) {
                uuids.push(typed(&holder.uuid, TABLE, "uuid")?);
            }
        }
        let rows = arqs::of_uuids(tx, &ArqScope::All, &uuids).await?;
        arqs::delete(tx, &rows).await?;
        Ok(rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(3600);
    const NONE: [i64; 0] = [];

    /// The requests with these ids, bound by these times.
    fn unknown(binds: &[(i64, &str)]) -> BTreeMap<i64, Holder> {
        let holders = binds.iter().map(|(id, bound_at)| {
            let holder = Holder {
                uuid: format!("request {id}"),
                guest: "a guest".to_owned(),
                updated_at: Some((*bound_at).to_owned()),
                device: "0000:41:00.0".to_owned(),
            };
            (*id, holder)
        });
        holders.collect()
    }

    /// The ids that are overdue by a report after so many grace times.
    fn overdue(
        seen: &UnknownInstances,
        (begun, times): (Instant, u32),
        binds: &[(i64, &str)],
    ) -> Vec<i64> {
        let overdue = seen.observe("h", unknown(binds), GRACE, begun + GRACE * times);
        overdue.into_keys().collect()
    }

    #[test]
    fn a_request_is_overdue_once_all_reports_of_the_grace_time_lack_its_guest_however_old_it_looks()
    {
        let (seen, begun) = (UnknownInstances::default(), Instant::now());
        let old = [(1, "2020-01-01")];
        assert_eq!(overdue(&seen, (begun, 0), &old), NONE);
        assert_eq!(overdue(&seen, (begun, 0), &old), NONE);
        let more = [(1, "2020-01-01"), (2, "2020-01-01")];
        assert_eq!(overdue(&seen, (begun, 1), &more), [1]);
        assert_eq!(overdue(&seen, (begun, 2), &more), [1, 2]);
    }

    #[test]
    fn a_report_with_the_guest_restarts_the_grace_time() {
        let (seen, begun) = (UnknownInstances::default(), Instant::now());
        let both = [(1, "noon"), (2, "noon")];
        assert_eq!(overdue(&seen, (begun, 0), &both), NONE);
        assert_eq!(overdue(&seen, (begun, 1), &[(2, "noon")]), [2]);
        assert_eq!(overdue(&seen, (begun, 2), &both), [2]);
        assert_eq!(overdue(&seen, (begun, 3), &[]), NONE);
        assert_eq!(overdue(&seen, (begun, 4), &both), NONE);
    }

    #[test]
    fn a_request_that_is_bound_again_restarts_the_grace_time() {
        let (seen, begun) = (UnknownInstances::default(), Instant::now());
        assert_eq!(overdue(&seen, (begun, 0), &[(1, "noon")]), NONE);
        assert_eq!(overdue(&seen, (begun, 1), &[(1, "one")]), NONE);
        assert_eq!(overdue(&seen, (begun, 2), &[(1, "one")]), [1]);
    }

    #[test]
    fn the_reports_of_one_host_say_nothing_of_another() {
        let (seen, begun) = (UnknownInstances::default(), Instant::now());
        assert_eq!(overdue(&seen, (begun, 0), &[(1, "noon")]), NONE);
        let other = seen.observe("other", unknown(&[]), GRACE, begun + GRACE);
        assert_eq!(other.len(), 0);
        assert_eq!(overdue(&seen, (begun, 1), &[(1, "noon")]), [1]);
    }
}
