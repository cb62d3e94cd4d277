//! Reads the compute API's rows directly: which guests should exist, and which work is unfinished.

use std::collections::BTreeSet;

use berth_conductor::journal::{BootGoal, BootRecord};
use berth_invariants::Journal;
use berth_model::ConsumerUuid;
use berth_store::{Disposition, Retryable, SqlError, Statement, Transaction, Work};

use super::{GuestCloud, is_asked_at_conductor};
use crate::fault::busy;

/// All servers, and what is left to be done with each.
const SERVERS: &str = "SELECT uuid, refusal IS NOT NULL, handed, deleting, settled_at IS NOT NULL, coalesce(task, '') \
    FROM compute_servers";

/// A server, as its row has it.
pub(super) struct ServerRow {
    pub(super) uuid: ConsumerUuid,
    /// The conductor did not take it: it stays without a guest until it is deleted.
    refused: bool,
    /// What is begun and not ended.
    open: Option<String>,
}

impl GuestCloud {
    /// The rows of the compute API; none where the cloud has none.
    pub(super) async fn server_rows(&self) -> Option<Vec<ServerRow>> {
        let store = &self.api.as_ref()?.store;
        let rows = busy(async { store.read().await?.rows(Statement::new(SERVERS)).await });
        let rows = rows.await.expect("the compute API's database");
        let servers = rows.iter().map(|row| {
            let is = |column| row.int(column).expect("a number") != 0;
            let open = match (is(3), is(2), is(4), row.text(5).expect("text")) {
                (true, ..) => Some("deleting".to_owned()),
                (_, false, ..) => Some("not handed over".to_owned()),
                (_, _, false, _) => Some("not settled".to_owned()),
                (.., task) => Some(task).filter(|task| !task.is_empty()),
            };
            ServerRow {
                uuid: row.text(0).expect("text").parse().expect("a UUID"),
                refused: is(1),
                open,
            }
        });
        Some(servers.collect())
    }

    /// Forgets all servers past the compute API: what a row that goes too early leaves.
    ///
    /// # Panics
    /// The cloud has no API.
    pub async fn forget_servers(&self) {
        let store = &self.api.as_ref().expect("an API").store;
        let forgotten = busy(store.write(&DeleteServerRow)).await;
        forgotten.expect("the compute API's database");
    }
}

/// The guests that should exist according to these rows: those that neither the conductor nor its boot refused. A
/// request to the conductor past the API is invisible here, and counts as known.
pub(super) fn known_servers(
    rows: &[ServerRow],
    boots: &[BootRecord],
    there: impl Iterator<Item = ConsumerUuid>,
) -> BTreeSet<ConsumerUuid> {
    let failed = |uuid| {
        let mut records = boots.iter();
        let record = records.find(|record| record.request.uuid() == uuid);
        record.is_some_and(|record| matches!(record.goal, BootGoal::Failed { .. }))
    };
    let accepted = rows.iter().filter(|row| !row.refused && !failed(row.uuid));
    let accepted = accepted.map(|row| row.uuid);
    accepted
        .chain(there.filter(|uuid| is_asked_at_conductor(*uuid)))
        .collect()
}

/// What the API has not done yet.
pub(super) fn journal(rows: &[ServerRow]) -> Journal {
    Journal {
        name: "the compute API".to_owned(),
        open: rows.iter().filter_map(|row| row.open.clone()).collect(),
    }
}

/// Guests of the conductor without a row: no client could delete them.
pub(super) fn unknown(rows: &[ServerRow], boots: &[BootRecord]) -> Vec<String> {
    let known: BTreeSet<ConsumerUuid> = rows.iter().map(|row| row.uuid).collect();
    let asked = boots.iter().map(|record| record.request.uuid());
    asked
        .filter(|uuid| !is_asked_at_conductor(*uuid) && !known.contains(uuid))
        .map(|uuid| {
            format!("the conductor knows guest {uuid}, and the compute API has no row of it")
        })
        .collect()
}

struct DeleteServerRow;

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct ForgetError(#[from] SqlError);

impl Retryable for ForgetError {
    fn disposition(&self) -> Disposition {
        Disposition::Fatal
    }
}

impl Work for DeleteServerRow {
    type Output = ();
    type Error = ForgetError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ForgetError> {
        Ok(tx.script("DELETE FROM compute_servers").await?)
    }
}
