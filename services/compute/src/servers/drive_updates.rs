//! Pending changes of config drives: what a user changes of a server, its config drive says, too.
//!
//! The change is queued in the transaction that changes the server, in front of later actions, and is sent to the agent
//! until it is there. Rows of the queue are no entries of the server's history, and are deleted when they end: they may
//! contain user data. Name and metadata are read when the change is sent, so the last one counts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_store::{SqlError, Transaction, Work};
use berth_wire::guest::{ConfigDriveChangeBody, GuestAction};
use uuid::Uuid;

use super::{ServerError, ServerRecord};
use crate::compute::Compute;
use crate::instance_actions::{self, DRIVE_UPDATE, NewAction};

/// The servers with pending changes, so that the reconciler need not search for them.
#[derive(Debug, Default)]
pub(crate) struct PendingDriveUpdates {
    servers: Mutex<BTreeSet<Uuid>>,
    /// Whether those of an earlier process are in it.
    is_loaded: AtomicBool,
}

impl PendingDriveUpdates {
    fn servers(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, server: Uuid) {
        self.servers().insert(server);
    }

    /// Whether it was there.
    pub(crate) fn remove(&self, server: Uuid) -> bool {
        self.servers().remove(&server)
    }

    fn all(&self) -> Vec<Uuid> {
        self.servers().iter().copied().collect()
    }
}

impl Compute {
    /// The servers with pending changes of their config drives.
    pub(crate) async fn pending_drive_updates(&self) -> Result<Vec<Uuid>, ServerError> {
        let pending = &self.inner.drive_updates;
        if !pending.is_loaded.load(Ordering::Acquire) {
            let mut tx = self.tables.read().await?;
            for server in instance_actions::servers_with_drive_updates(&mut tx).await? {
                pending.insert(server);
            }
            pending.is_loaded.store(true, Ordering::Release);
        }
        Ok(pending.all())
    }

    /// Sends the change that was just queued.
    pub(crate) fn send_drive_update(&self, server: Uuid) {
        self.inner.drive_updates.insert(server);
        self.start_action_task(server);
    }

    /// Deletes a change that has ended.
    pub(crate) async fn delete_drive_update(&self, action: i64) -> Result<(), ServerError> {
        self.tables.write(&DeleteDriveUpdate(action)).await?;
        // It may contain user data, which must not remain on disk.
        self.tables.empty_log().await;
        Ok(())
    }
}

/// Queues a change of a server's config drive, unless an equal one waits.
pub(super) async fn queue(
    tx: &mut Transaction,
    server: &ServerRecord,
    change: ConfigDriveChangeBody,
) -> Result<(), SqlError> {
    let body = berth_wire::encode(&GuestAction::UpdateConfigDrive { change });
    let body = String::from_utf8_lossy(&body).into_owned();
    if instance_actions::is_drive_update_queued(tx, server.uuid, &body).await? {
        return Ok(());
    }
    let request_id = format!("req-{}", berth_http::request_id::random_uuid());
    let action = NewAction {
        server: server.uuid,
        project_id: &server.project_id,
        user_id: &server.user_id,
        request_id: &request_id,
        action: DRIVE_UPDATE,
        event: "",
        body: Some(&body),
    };
    instance_actions::insert(tx, &action).await
}

struct DeleteDriveUpdate(i64);

impl Work for DeleteDriveUpdate {
    type Output = ();
    type Error = ServerError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerError> {
        Ok(instance_actions::delete_drive_update(tx, self.0).await?)
    }
}
