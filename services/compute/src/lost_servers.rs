//! Detects servers with a guest in the conductor but without a row, because the database was lost or restored
//! from an older backup. Nothing can be repaired here; the log names them. [`crate::owners`] handles the opposite case.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use berth_conductor::journal::BootGoal;
use berth_store::Statement;
use uuid::Uuid;

use crate::compute::Compute;
use crate::servers::{ServerError, number_of};

impl Compute {
    /// Servers that were created through this API and are in the conductor's journal but not in the database. A row is
    /// written before its guest and deleted after it, so there are none unless the database was lost. Guests of other
    /// callers have names of their own and do not count. Reads the whole journal, once per start.
    pub async fn lost_servers(&self) -> Result<Vec<Uuid>, ServerError> {
        let records = self.inner.conductor.list().await?;
        let named = records.readable.iter().filter_map(|record| {
            let number = number_of(&record.request.body().name)?;
            Some((number, record))
        });
        let mut guests = Vec::new();
        for (number, record) in named {
            // No new server has the name of a guest that is there.
            self.inner
                .highest_number
                .fetch_max(number, Ordering::Relaxed);
            if record.goal != BootGoal::Delete {
                guests.push(*record.request.uuid().as_uuid());
            }
        }
        let known = self.existing_servers(&guests).await?;
        let unknown = guests.into_iter().filter(|guest| !known.contains(guest));
        let unknown: Vec<_> = unknown.map(Into::into).collect();
        // A server that was deleted concurrently left the journal before its row was deleted.
        let still = self.inner.conductor.guests_of(&unknown).await?;
        Ok(still.uuids().map(|guest| *guest.as_uuid()).collect())
    }

    /// The servers of this list that have a row.
    async fn existing_servers(&self, servers: &[Uuid]) -> Result<BTreeSet<Uuid>, ServerError> {
        let head = Statement::new("SELECT uuid FROM compute_servers WHERE uuid IN");
        let keys: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let mut tx = self.tables.read().await?;
        let mut known = BTreeSet::new();
        for row in tx.rows_in(&head, &keys, "").await? {
            known.extend(row.text(0)?.parse::<Uuid>());
        }
        Ok(known)
    }

    /// Logs lost servers at start.
    pub(crate) async fn log_lost_servers(&self) {
        match self.lost_servers().await {
            Ok(lost) => {
                let Some(one) = lost.first() else {
                    return;
                };
                tracing::warn!(
                    guests = lost.len(),
                    %one,
                    "guests without a server: the conductor has guests that are missing in the compute API's database, which was \
                     lost or restored from an older backup. They keep running, but the API does not show them. Stop the service \
                     and restore the database at [compute_service] connection; without a backup, list them with berth guest list \
                     and delete them with berth guest delete"
                );
            }
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "checking for lost servers failed"
            ),
        }
    }
}
