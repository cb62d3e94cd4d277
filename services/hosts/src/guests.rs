//! Which conductor has a guest: whoever asked for its UUID first, until it says that it is done with it.
//!
//! In Placement two conductors that claim the same for one guest cannot be told apart, nor can one whose request arrived twice be
//! told from two. So a conductor has a guest here before it claims anything for it, and what a guest of its own holds is its own.
//! A row survives the conductor that wrote it: one whose journal is lost for ever is taken out by another, once the guest is nowhere.

use std::collections::BTreeSet;

use berth_store::{Row, Statement, Transaction, Work};
use uuid::Uuid;

use crate::hosts::Hosts;
use crate::store::{TableError, typed};

/// A guest, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnedGuest {
    pub instance: Uuid,
    /// The conductor, by a name that its journal has for as long as it lasts.
    pub owner: Uuid,
}

impl Hosts {
    /// Makes a guest its conductor's, where it is nobody's yet; whether it is. Who does not hear the answer asks again.
    pub async fn own(&self, guest: OwnedGuest) -> Result<bool, TableError> {
        self.tables.write(&Own(guest)).await
    }

    /// Makes a guest nobody's; whether it was its conductor's. Another's stays another's.
    pub async fn disown(&self, guest: OwnedGuest) -> Result<bool, TableError> {
        self.tables.write(&Disown(guest)).await
    }

    /// The guests that are somebody's.
    pub async fn owned_guests(&self) -> Result<Vec<OwnedGuest>, TableError> {
        read(&mut self.tables.read().await?).await
    }

    /// Those of them of whom no host tells.
    pub async fn untold_guests(&self) -> Result<Vec<OwnedGuest>, TableError> {
        let mut owned = self.owned_guests().await?;
        if !owned.is_empty() {
            let told = self.told_instances().await?;
            owned.retain(|guest| !told.contains(&guest.instance.to_string()));
        }
        Ok(owned)
    }

    /// The guests of which any host tells.
    pub(crate) async fn told_instances(&self) -> Result<BTreeSet<String>, TableError> {
        let nodes = self.nodes().await?;
        let states = self.states(&nodes).await?;
        let told = states.iter().flat_map(|state| state.instances.iter());
        Ok(told.map(|(instance, _)| instance.to_owned()).collect())
    }
}

async fn read(tx: &mut Transaction) -> Result<Vec<OwnedGuest>, TableError> {
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

struct Own(OwnedGuest);

impl Work for Own {
    type Output = bool;
    type Error = TableError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, TableError> {
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

struct Disown(OwnedGuest);

impl Work for Disown {
    type Output = bool;
    type Error = TableError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, TableError> {
        let sql = "DELETE FROM guest_owners WHERE instance_uuid = ? AND owner = ?";
        let delete = Statement::new(sql)
            .bind(self.0.instance.to_string())
            .bind(self.0.owner.to_string());
        Ok(tx.execute(delete).await?.rows_affected == 1)
    }
}
