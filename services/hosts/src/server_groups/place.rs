//! A member is put on a host, or taken from it, by compare and swap on the group's generation.

use berth_store::{SqlError, Statement, Transaction, Work};
use uuid::Uuid;

use super::ServerGroupError;
use crate::hosts::Hosts;
use crate::report::host_name;
use crate::store::typed;

impl Hosts {
    /// Puts an instance on a host, if the group is still as it was read at `generation`; the generation after that. To be called
    /// before the claim; where the claim fails, another host is chosen and this is called again, or [`Hosts::unplace`].
    ///
    /// Whoever does not hear the answer reads the group again and goes on: an instance has one place, and its own is no
    /// obstacle to it.
    ///
    /// # Errors
    /// [`ServerGroupError::Changed`]: read again, choose again; nothing was written.
    pub async fn place(
        &self,
        group: Uuid,
        generation: i64,
        instance: Uuid,
        host: &str,
    ) -> Result<i64, ServerGroupError> {
        host_name(host)?;
        let place = Place {
            group,
            generation,
            instance,
            host,
        };
        self.tables.write(&place).await
    }

    /// Takes an instance out of a group: it was deleted, or is not built after all. One that is not in it is out of it already.
    ///
    /// # Errors
    /// The database fails.
    pub async fn unplace(&self, group: Uuid, instance: Uuid) -> Result<(), ServerGroupError> {
        self.tables.write(&Unplace { group, instance }).await
    }
}

struct Place<'a> {
    group: Uuid,
    generation: i64,
    instance: Uuid,
    host: &'a str,
}

impl Work for Place<'_> {
    type Output = i64;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, ServerGroupError> {
        let group = self.group;
        let sql = "UPDATE server_groups SET generation = generation + 1 WHERE uuid = ? AND generation = ?";
        let swap = Statement::new(sql)
            .bind(group.to_string())
            .bind(self.generation);
        let swapped = tx.execute(swap).await?.rows_affected == 1;
        let Some(id) = id(tx, group).await? else {
            return Err(ServerGroupError::NotFound { group });
        };
        if !swapped {
            let generation = self.generation;
            return Err(ServerGroupError::Changed { group, generation });
        }
        self.write(tx, id).await?;
        Ok(self.generation.saturating_add(1))
    }
}

impl Place<'_> {
    async fn write(&self, tx: &mut Transaction, id: i64) -> Result<(), ServerGroupError> {
        let instance = self.instance.to_string();
        let sql = "SELECT g.id, g.uuid FROM server_group_members m JOIN server_groups g ON g.id = m.group_id \
                   WHERE m.instance_uuid = ?";
        let sql = match tx.row(Statement::new(sql).bind(&instance)).await? {
            Some(row) if row.int(0)? != id => {
                return Err(ServerGroupError::OtherGroup {
                    instance: self.instance,
                    other: typed(&row.text(1)?, "server_groups", "uuid")?,
                });
            }
            Some(_) => {
                "UPDATE server_group_members SET host = ?, group_id = ? WHERE instance_uuid = ?"
            }
            None => {
                "INSERT INTO server_group_members (host, group_id, instance_uuid) VALUES (?, ?, ?)"
            }
        };
        let write = Statement::new(sql).bind(self.host).bind(id).bind(instance);
        tx.execute(write).await?;
        Ok(())
    }
}

struct Unplace {
    group: Uuid,
    instance: Uuid,
}

impl Work for Unplace {
    type Output = ();
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerGroupError> {
        // The group's row first, as all do who change members.
        let sql = "UPDATE server_groups SET generation = generation + 1 WHERE uuid = ?";
        tx.execute(Statement::new(sql).bind(self.group.to_string()))
            .await?;
        if let Some(id) = id(tx, self.group).await? {
            let sql = "DELETE FROM server_group_members WHERE instance_uuid = ? AND group_id = ?";
            let delete = Statement::new(sql).bind(self.instance.to_string());
            tx.execute(delete.bind(id)).await?;
        }
        Ok(())
    }
}

async fn id(tx: &mut Transaction, group: Uuid) -> Result<Option<i64>, SqlError> {
    let sql = "SELECT id FROM server_groups WHERE uuid = ?";
    let row = tx.row(Statement::new(sql).bind(group.to_string())).await?;
    row.map(|row| row.int(0)).transpose()
}
