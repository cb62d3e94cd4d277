//! Ownership of guests: each guest UUID belongs to the conductor that claimed it first, until that conductor releases
//! it.
//!
//! Placement cannot tell two conductors apart that claim the same resources for one guest, nor a repeated request
//! from two requests. Therefore a conductor claims the guest here before it claims anything in Placement. Allocations
//! of an owned guest then always belong to its owner.
//!
//! An ownership row outlives its conductor. If the conductor's journal is lost, another conductor removes the row
//! once the guest has no allocations and no host reports it.

use std::collections::BTreeSet;

use berth_store::{Row, Statement, Transaction, Work};
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::store::{HostTableError, typed};

/// A guest and the conductor that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedGuest {
    pub instance: Uuid,
    /// UUID of the conductor's journal.
    pub owner: Uuid,
}

impl Hosts {
    /// Claims a guest for its conductor, if it has no owner. Returns whether the conductor
    /// owns the guest. Idempotent.
    pub async fn claim_guest(&self, guest: OwnedGuest) -> Result<bool, HostTableError> {
        self.tables.write(&ClaimGuest(guest)).await
    }

    /// Releases a guest. Returns whether the given conductor owned it; another conductor's guest is not released.
    pub async fn release_guest(&self, guest: OwnedGuest) -> Result<bool, HostTableError> {
        self.tables.write(&ReleaseGuest(guest)).await
    }

    /// All guests with an owner.
    pub async fn owned_guests(&self) -> Result<Vec<OwnedGuest>, HostTableError> {
        read_owners(&mut self.tables.read().await?).await
    }

    /// Guests with an owner that no host reports.
    pub async fn unreported_guests(&self) -> Result<Vec<OwnedGuest>, HostTableError> {
        let mut owned = self.owned_guests().await?;
        if !owned.is_empty() {
            let reported = self.reported_instances().await?;
            owned.retain(|guest| !reported.contains(&guest.instance.to_string()));
        }
        Ok(owned)
    }

    /// UUIDs of the guests that any host reports.
    pub(crate) async fn reported_instances(&self) -> Result<BTreeSet<String>, HostTableError> {
        let nodes = self.nodes().await?;
        let states = self.states(&nodes).await?;
        let reported = states.iter().flat_map(|state| state.instances.iter());
        Ok(reported.map(|(instance, _)| instance.to_owned()).collect())
    }
}

async fn read_owners(tx: &mut Transaction) -> Result<Vec<OwnedGuest>, HostTableError> {
    let sql = "SELECT instance_uuid, owner FROM guest_owners";
    let rows = tx.rows(Statement::new(sql)).await?;
    let uuid = |row: &Row, at, column| typed(&row.text(at)?, "guest_owners", column);
    let owned = rows.iter().map(|row| {
        Ok(OwnedGuest {
            instance: uuid(row, 0, "instance_uuid")?,
            owner: uuid(row, 1, "owner")?,
        })
    });
    owned.collect()
}

struct ClaimGuest(OwnedGuest);

impl Work for ClaimGuest {
    type Output = bool;
    type Error = HostTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, HostTableError> {
        let (instance, owner) = (self.0.instance.to_string(), self.0.owner.to_string());
        let sql = format!(
            "INSERT INTO guest_owners (instance_uuid, owner) VALUES (?, ?){}",
            tx.dialect().or_nothing("instance_uuid")
        );
        let insert = Statement::new(sql).bind(&instance).bind(&owner);
        tx.execute(insert).await?;
        let sql = "SELECT 1 FROM guest_owners WHERE instance_uuid = ? AND owner = ?";
        let row = Statement::new(sql).bind(instance).bind(owner);
        Ok(tx.row(row).await?.is_some())
    }
}

struct ReleaseGuest(OwnedGuest);

impl Work for ReleaseGuest {
    type Output = bool;
    type Error = HostTableError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, HostTableError> {
        let sql = "DELETE FROM guest_owners WHERE instance_uuid = ? AND owner = ?";
        let delete = Statement::new(sql)
            .bind(self.0.instance.to_string())
            .bind(self.0.owner.to_string());
        Ok(tx.execute(delete).await?.rows_affected == 1)
    }
}
