//! Garbage collector for server-group members and ownership rows after their conductor lost its journal.
//!
//! An entry is stale if this conductor's journal does not have the guest, no host reports it, and it has no
//! allocations in Placement, all for a grace period. The grace period is longer than a boot takes between group
//! placement and claim. If a slow boot loses its group placement nevertheless, it notices that after the claim and
//! releases the claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::PlacementError;
use berth_hosts::{HostTableError, OwnedGuest, PlacedMember, ServerGroupError};
use berth_model::ConsumerUuid;
use tokio::time::Instant;

use crate::boot_context::BootContext;
use crate::journal::JournalError;
use crate::scan_interval::ScanInterval;

/// Error of a scan for stale members.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StaleMembersError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error("failed to read the hosts' states: {0}")]
    Hosts(#[from] HostTableError),
    #[error(transparent)]
    Group(#[from] ServerGroupError),
}

#[derive(Default)]
struct StaleObservations {
    scan: ScanInterval,
    /// StaleObservations when each is nowhere.
    first_seen: BTreeMap<StaleEntry, Instant>,
}

/// A row that may be stale.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum StaleEntry {
    /// A member of a server group.
    Member(PlacedMember),
    Guest(OwnedGuest),
}

impl StaleEntry {
    fn guest(&self) -> ConsumerUuid {
        ConsumerUuid::from(match self {
            Self::Member(placed) => placed.member.instance,
            Self::Guest(owned) => owned.instance,
        })
    }

    /// Removes the row, unless it changed since it was read. Returns whether it was removed.
    async fn remove(&self, context: &BootContext) -> Result<bool, StaleMembersError> {
        let (hosts, guest) = (&context.scheduler.hosts, self.guest());
        match self {
            Self::Member(placed) => {
                let is_removed = hosts.remove_stale_member(placed).await?;
                if is_removed {
                    let group = placed.member.group;
                    tracing::info!(%guest, %group, host = placed.host, "removed a stale member from its server group");
                }
                Ok(is_removed)
            }
            Self::Guest(owned) => {
                let is_removed = hosts.release_guest(*owned).await?;
                if is_removed {
                    tracing::info!(%guest, owner = %owned.owner, "removed the stale owner of a guest");
                }
                Ok(is_removed)
            }
        }
    }
}

/// Observations of earlier scans. Not persistent: a restart begins a new grace period.
#[derive(Default)]
pub(crate) struct StaleMembers(Mutex<StaleObservations>);

impl StaleMembers {
    /// Scans if a scan is due. Returns the number of removed entries.
    pub(crate) async fn collect(&self, context: &BootContext) -> Result<usize, StaleMembersError> {
        let grace = context.options.orphan_grace;
        if !self.observations().scan.is_due(grace, Instant::now()) {
            return Ok(0);
        }
        let hosts = &context.scheduler.hosts;
        let members = hosts.unreported_members().await?;
        let mut unreported: Vec<_> = members.into_iter().map(StaleEntry::Member).collect();
        let guests = hosts.unreported_guests().await?;
        unreported.extend(guests.into_iter().map(StaleEntry::Guest));
        // Read the journal after the database: a guest is in the journal before it is in the database.
        let guests: BTreeSet<_> = unreported.iter().map(StaleEntry::guest).collect();
        let guests: Vec<_> = guests.into_iter().collect();
        let own = context.journal.guests_of(&guests).await?;
        let mut own: BTreeSet<_> = own.uuids().collect();
        own.extend(context.journal.late_claims().await?);
        let late = context.journal.late_ports().await?;
        own.extend(late.iter().map(|late| late.guest));
        let mut stale = BTreeSet::new();
        for entry in unreported {
            let guest = entry.guest();
            if !own.contains(&guest) && context.placement.allocations(guest).await?.is_none() {
                stale.insert(entry);
            }
        }
        let mut removed = 0;
        for entry in self.overdue(&stale, grace) {
            if entry.remove(context).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn observations(&self) -> MutexGuard<'_, StaleObservations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries that were stale for the whole grace period.
    fn overdue(&self, stale: &BTreeSet<StaleEntry>, grace: Duration) -> Vec<StaleEntry> {
        let now = Instant::now();
        let mut observations = self.observations();
        observations
            .first_seen
            .retain(|entry, _| stale.contains(entry));
        let doomed = stale.iter().filter(|entry| {
            let first = *observations
                .first_seen
                .entry((*entry).clone())
                .or_insert(now);
            now.duration_since(first) >= grace
        });
        doomed.cloned().collect()
    }
}
