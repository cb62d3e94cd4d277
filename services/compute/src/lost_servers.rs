//! Servers whose guests the conductor has and whose rows are not there: the database was lost and begun anew, or put back from before
//! them. It is the other way round of [`crate::owners`]; here nothing can be done but to say it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use berth_conductor::journal::Course;
use berth_store::Statement;
use uuid::Uuid;

use crate::compute::Compute;
use crate::servers::{ServerError, number_of};

impl Compute {
    /// The servers that were asked for here, whose guests the conductor has, and that the database does not know. A row is written
    /// before its guest is asked for and goes behind it: where the database was never lost there are none. Guests that others
    /// asked the conductor for have names of their own, and are none either. Reads the whole journal: once at a start.
    pub async fn lost_servers(&self) -> Result<Vec<Uuid>, ServerError> {
        let records = self.inner.conductor.list().await?;
        let named = records.readable.iter().filter_map(|record| {
            let number = number_of(&record.request.body().name)?;
            Some((number, record))
        });
        let mut guests = Vec::new();
        for (number, record) in named {
            // No new server has the name of a guest that is there.
            self.inner.numbered.fetch_max(number, Ordering::Relaxed);
            if record.course != Course::Delete {
                guests.push(*record.request.uuid().as_uuid());
            }
        }
        let known = self.known_of(&guests).await?;
        let unknown = guests.into_iter().filter(|guest| !known.contains(guest));
        let unknown: Vec<_> = unknown.map(Into::into).collect();
        // One that was deleted meanwhile went from the journal before its row did.
        let still = self.inner.conductor.guests_of(&unknown).await?;
        Ok(still.uuids().map(|guest| *guest.as_uuid()).collect())
    }

    /// Those of these that have a row.
    async fn known_of(&self, servers: &[Uuid]) -> Result<BTreeSet<Uuid>, ServerError> {
        let head = Statement::new("SELECT uuid FROM compute_servers WHERE uuid IN");
        let keys: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let mut tx = self.tables.read().await?;
        let mut known = BTreeSet::new();
        for row in tx.rows_in(&head, &keys, "").await? {
            known.extend(row.text(0)?.parse::<Uuid>());
        }
        Ok(known)
    }

    /// Says it where there are any; at a start.
    pub(crate) async fn tell_of_lost_servers(&self) {
        match self.lost_servers().await {
            Ok(lost) => {
                let Some(one) = lost.first() else {
                    return;
                };
                tracing::warn!(
                    guests = lost.len(),
                    %one,
                    "the conductor has guests of servers that the compute API's database does not know: it was lost, or put back \
                     from before them. Those that run go on, and the API does not show them. Stop the service and put back the database \
                     that [compute_service] connection names; without a backup, berth guest list shows them and berth guest \
                     delete ends them"
                );
            }
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "it is not known whether the conductor has guests of servers that the compute API's database does not know"
            ),
        }
    }
}
