//! Guests, and members of server groups, who are nowhere: the journal of the conductor that has them was lost, and nobody else would
//! take them out. A guest whose own conductor has it in its journal is that conductor's affair; of the others those go of whom no host tells
//! and for whom Placement has nothing, for so long that nobody is between place and claim. Should somebody be there all the same, the
//! claim finds the place gone and is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_client::PlacementError;
use berth_hosts::{OwnedGuest, PlacedMember, ServerGroupError, TableError};
use berth_model::ConsumerUuid;
use tokio::time::Instant;

use crate::journal::JournalError;
use crate::looks::Looks;
use crate::way::Way;

/// Those who are nowhere could not be looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AbsentError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Placement did not answer as hoped.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// What is known of the hosts cannot be read.
    #[error("the hosts' states cannot be read: {0}")]
    Hosts(#[from] TableError),
    /// A group cannot be written.
    #[error(transparent)]
    Group(#[from] ServerGroupError),
}

#[derive(Default)]
struct Since {
    looks: Looks,
    /// Since when each is nowhere.
    seen: BTreeMap<Entry, Instant>,
}

/// What the database has of a guest that may be nowhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// Its place in its server group.
    Member(PlacedMember),
    Guest(OwnedGuest),
}

impl Entry {
    fn guest(&self) -> ConsumerUuid {
        ConsumerUuid::from(match self {
            Self::Member(placed) => placed.member.instance,
            Self::Guest(owned) => owned.instance,
        })
    }

    /// Takes it out, unless it was changed meanwhile; whether it was.
    async fn take_out(&self, way: &Way) -> Result<bool, AbsentError> {
        let (hosts, guest) = (&way.scheduler.hosts, self.guest());
        match self {
            Self::Member(placed) => {
                let is_out = hosts.remove_absent(placed).await?;
                if is_out {
                    let group = placed.member.group;
                    tracing::info!(%guest, %group, host = placed.host, "a guest that is nowhere is taken out of its server group");
                }
                Ok(is_out)
            }
            Self::Guest(owned) => {
                let is_out = hosts.disown(*owned).await?;
                if is_out {
                    tracing::info!(%guest, owner = %owned.owner, "a guest that is nowhere is no conductor's any more");
                }
                Ok(is_out)
            }
        }
    }
}

/// What was seen so far. A restart begins anew.
#[derive(Default)]
pub(crate) struct Absent(Mutex<Since>);

impl Absent {
    /// Looks, where it is time to; how many were taken out.
    pub(crate) async fn look(&self, way: &Way) -> Result<usize, AbsentError> {
        let grace = way.options.stray_grace;
        if !self.since().looks.is_due(grace, Instant::now()) {
            return Ok(0);
        }
        let hosts = &way.scheduler.hosts;
        let members = hosts.untold_members().await?;
        let mut untold: Vec<_> = members.into_iter().map(Entry::Member).collect();
        let guests = hosts.untold_guests().await?;
        untold.extend(guests.into_iter().map(Entry::Guest));
        // The journal after the database: it knew a guest before that did.
        let guests: BTreeSet<_> = untold.iter().map(Entry::guest).collect();
        let guests: Vec<_> = guests.into_iter().collect();
        let own = way.journal.guests_of(&guests).await?;
        let mut own: BTreeSet<_> = own.uuids().collect();
        own.extend(way.journal.late_claims().await?);
        let mut absent = BTreeSet::new();
        for entry in untold {
            let guest = entry.guest();
            if !own.contains(&guest) && way.placement.allocations(guest).await?.is_none() {
                absent.insert(entry);
            }
        }
        let mut taken = 0;
        for entry in self.judge(&absent, grace) {
            if entry.take_out(way).await? {
                taken += 1;
            }
        }
        Ok(taken)
    }

    fn since(&self) -> MutexGuard<'_, Since> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who have been nowhere for long enough.
    fn judge(&self, absent: &BTreeSet<Entry>, grace: Duration) -> Vec<Entry> {
        let now = Instant::now();
        let mut since = self.since();
        since.seen.retain(|entry, _| absent.contains(entry));
        let doomed = absent.iter().filter(|entry| {
            let first = *since.seen.entry((*entry).clone()).or_insert(now);
            now.duration_since(first) >= grace
        });
        doomed.cloned().collect()
    }
}
