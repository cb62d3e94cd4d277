//! Whose journal knows a server's guest. That a conductor does not know a guest says something where its journal is the one that
//! did; one that was lost and begun anew, or that of another controller on the same database, must not end servers that run.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use berth_conductor::journal::UnreadableGuest;
use berth_model::ConsumerUuid;
use uuid::Uuid;

use crate::compute::Compute;
use crate::servers::{Handed, Rows, Server, ServerError, read};

impl Compute {
    /// The name of this conductor's journal.
    pub(crate) fn owner(&self) -> Uuid {
        self.inner.conductor.owner()
    }

    /// Whether another conductor looks after a server. One that was refused has no guest.
    pub(crate) fn is_anothers(&self, server: &Server) -> bool {
        let is_refused = matches!(server.handed, Handed::Refused { .. });
        !is_refused && server.owner.is_some_and(|owner| owner != self.owner())
    }

    /// The conductor does not know the guest. Where its journal is the one that did, nobody does, and the row goes; not while it has
    /// one whose UUID cannot be read, which may be this, unless the server is to go anyway.
    pub(crate) async fn gone(&self, server: &Server) -> Result<(), ServerError> {
        if !server.deleting
            && let Some(nameless) = self.inner.conductor.nameless().await?
        {
            self.tell_of_unreadable(&nameless);
            return Ok(());
        }
        if server.owner == Some(self.owner()) || matches!(server.handed, Handed::Refused { .. }) {
            return self.forget_server(server.uuid).await;
        }
        self.tell_of_anothers(server.uuid);
        Ok(())
    }

    pub(crate) fn tell_of_anothers(&self, server: Uuid) {
        if !self.inner.anothers_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %server,
                "there are servers whose guests this conductor's journal never knew: they are shown as they were seen last, and \
                 not forgotten; if conductor.db was lost, put it back"
            );
        }
    }

    /// Said once of each.
    pub(crate) fn tell_of_unreadable(&self, guest: &UnreadableGuest) {
        let told = &self.inner.unreadable_told;
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(guest.guest.clone()) {
            tracing::warn!(
                error = guest as &dyn std::error::Error,
                server = guest.guest,
                "a server is shown as it was seen last"
            );
        }
    }

    /// Makes the servers of an earlier release this conductor's whose guests it knows.
    pub(crate) async fn adopt(&self) -> Result<(), ServerError> {
        let mut tx = self.tables.read().await?;
        let ownerless = read(&mut tx, Rows::Ownerless).await?;
        drop(tx);
        let guests: Vec<_> = ownerless
            .iter()
            .map(|server| ConsumerUuid::from(server.uuid))
            .collect();
        for guest in self.inner.conductor.guests_of(&guests).await?.uuids() {
            let _ = self.owned(*guest.as_uuid()).await?;
        }
        Ok(())
    }
}
