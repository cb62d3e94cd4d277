//! Ownership of servers by conductor journals. A conductor that does not have a guest proves that the guest is gone
//! only if its journal created it. A journal that was lost, or that of another controller on the same
//! database, must not end running servers.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use berth_conductor::journal::UnreadableRecord;
use berth_model::ConsumerUuid;
use uuid::Uuid;

use crate::compute::Compute;
use crate::servers::{ConductorHandoff, ServerError, ServerRecord, ServerSelection, list};

impl Compute {
    /// The name of this conductor's journal.
    pub(crate) fn owner(&self) -> Uuid {
        self.inner.conductor.owner()
    }

    /// Whether another conductor owns a server. Refused servers have no guest.
    pub(crate) fn is_owned_by_another(&self, server: &ServerRecord) -> bool {
        let is_refused = matches!(server.handoff, ConductorHandoff::Refused { .. });
        !is_refused && server.owner.is_some_and(|owner| owner != self.owner())
    }

    /// Handles a guest that the conductor does not have. If this conductor owns it, the guest is gone and its row is
    /// deleted. Exception: while the journal contains a guest with an unreadable UUID, which could be this one, the row
    /// stays unless it is being deleted.
    pub(crate) async fn handle_missing_guest(
        &self,
        server: &ServerRecord,
    ) -> Result<(), ServerError> {
        if !server.deleting
            && let Some(unidentified_guest) = self.inner.conductor.unidentified_guest().await?
        {
            self.log_unreadable_record(&unidentified_guest);
            return Ok(());
        }
        if server.owner == Some(self.owner())
            || matches!(server.handoff, ConductorHandoff::Refused { .. })
        {
            return self.delete_server_row(server.uuid).await;
        }
        self.log_foreign_owner(server.uuid);
        Ok(())
    }

    pub(crate) fn log_foreign_owner(&self, server: Uuid) {
        if !self
            .inner
            .logged_foreign_owner
            .swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                %server,
                "servers belong to another conductor journal: their last known state is shown, and they are kept; if conductor.db \
                 was lost, restore it"
            );
        }
    }

    /// Logs each unreadable record once.
    pub(crate) fn log_unreadable_record(&self, guest: &UnreadableRecord) {
        let logged = &self.inner.logged_unreadable;
        let mut logged = logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(guest.guest.clone()) {
            tracing::warn!(
                error = guest as &dyn std::error::Error,
                server = guest.guest,
                "the record of a guest is unreadable; its server shows the last known state"
            );
        }
    }

    /// Takes ownership of servers of an earlier release if this conductor has their guests.
    pub(crate) async fn adopt(&self) -> Result<(), ServerError> {
        let mut tx = self.tables.read().await?;
        let ownerless = list(&mut tx, ServerSelection::Ownerless).await?;
        drop(tx);
        let guests: Vec<_> = ownerless
            .iter()
            .map(|server| ConsumerUuid::from(server.uuid))
            .collect();
        for guest in self.inner.conductor.guests_of(&guests).await?.uuids() {
            let _ = self.take_ownership(*guest.as_uuid()).await?;
        }
        Ok(())
    }
}
