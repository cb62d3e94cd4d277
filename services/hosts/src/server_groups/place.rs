//! A member is put on a host, or taken from it, by compare and swap on the group's generation.
//!
//! A member has an owner: the conductor that boots it. Nobody else moves it or takes it out, but for one that is nowhere
//! ([`Hosts::remove_absent`]).

use berth_store::{SqlError, Statement, Transaction, Work};
use uuid::Uuid;

use super::ServerGroupError;
use crate::hosts::Hosts;
use crate::report::host_name;
use crate::store::typed;

/// A guest of a server group, and who boots it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMember {
    pub group: Uuid,
    pub instance: Uuid,
    /// The conductor, by the name that its journal has for as long as it lasts.
    pub owner: Uuid,
}

impl Hosts {
    /// Puts an instance on a host, if the group is still as it was read at `generation`; the generation after that. To be called
    /// before the claim; where the claim fails, another host is chosen and this is called again, or [`Hosts::unplace`].
    ///
    /// Whoever does not hear the answer reads the group again and goes on: an instance has one place, and its own is no
    /// obstacle to it.
    pub async fn place(
        &self,
        member: GroupMember,
        generation: i64,
        host: &str,
    ) -> Result<i64, ServerGroupError> {
        host_name(host)?;
        let place = Place {
            member: &member,
            generation,
            host,
        };
        self.tables.write(&place).await
    }

    /// Notes that what the instance was placed for is claimed; whether it still has its place. It has not where it was taken for one
    /// that is nowhere, between [`Hosts::place`] and the claim: that one is to be given back. A group that is no more has no places.
    pub async fn claimed(&self, member: GroupMember) -> Result<bool, ServerGroupError> {
        self.tables.write(&Claimed(&member)).await
    }

    /// Takes an instance out of a group: it was deleted, or is not built after all. One that is not in it is out of it already, and
    /// another owner's stays.
    pub async fn unplace(&self, member: GroupMember) -> Result<(), ServerGroupError> {
        self.tables.write(&Unplace(&member)).await
    }
}

struct Place<'a> {
    member: &'a GroupMember,
    generation: i64,
    host: &'a str,
}

impl Work for Place<'_> {
    type Output = i64;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, ServerGroupError> {
        let group = self.member.group;
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
        let GroupMember {
            group,
            instance,
            owner,
        } = *self.member;
        let (uuid, owner) = (instance.to_string(), owner.to_string());
        let sql = "SELECT g.id, g.uuid, m.owner FROM server_group_members m JOIN server_groups g ON g.id = m.group_id \
                   WHERE m.instance_uuid = ?";
        let sql = match tx.row(Statement::new(sql).bind(&uuid)).await? {
            Some(row) if row.int(0)? != id => {
                return Err(ServerGroupError::OtherGroup {
                    instance,
                    other: typed(&row.text(1)?, "server_groups", "uuid")?,
                });
            }
            Some(row) if row.text(2)? != owner => {
                return Err(ServerGroupError::OtherOwner { instance, group });
            }
            Some(_) => {
                "UPDATE server_group_members SET host = ?, group_id = ?, owner = ?, claimed = 0 WHERE instance_uuid = ?"
            }
            None => {
                "INSERT INTO server_group_members (host, group_id, owner, instance_uuid, claimed) VALUES (?, ?, ?, ?, 0)"
            }
        };
        let write = Statement::new(sql).bind(self.host).bind(id).bind(owner);
        tx.execute(write.bind(uuid)).await?;
        Ok(())
    }
}

struct Claimed<'a>(&'a GroupMember);

impl Work for Claimed<'_> {
    type Output = bool;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, ServerGroupError> {
        let (instance, owner) = (self.0.instance.to_string(), self.0.owner.to_string());
        let sql =
            "UPDATE server_group_members SET claimed = 1 WHERE instance_uuid = ? AND owner = ?";
        let note = Statement::new(sql).bind(&instance).bind(&owner);
        tx.execute(note).await?;
        let Some(id) = id(tx, self.0.group).await? else {
            return Ok(true);
        };
        let sql = "SELECT 1 FROM server_group_members WHERE instance_uuid = ? AND owner = ? AND group_id = ?";
        let row = Statement::new(sql).bind(instance).bind(owner).bind(id);
        Ok(tx.row(row).await?.is_some())
    }
}

struct Unplace<'a>(&'a GroupMember);

impl Work for Unplace<'_> {
    type Output = ();
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerGroupError> {
        let member = self.0;
        // The group's row first, as all do who change members.
        touch(tx, member.group).await?;
        if let Some(id) = id(tx, member.group).await? {
            let sql = "DELETE FROM server_group_members WHERE instance_uuid = ? AND owner = ? AND group_id = ?";
            let delete = Statement::new(sql)
                .bind(member.instance.to_string())
                .bind(member.owner.to_string());
            tx.execute(delete.bind(id)).await?;
        }
        Ok(())
    }
}

pub(super) async fn touch(tx: &mut Transaction, group: Uuid) -> Result<(), SqlError> {
    let sql = "UPDATE server_groups SET generation = generation + 1 WHERE uuid = ?";
    let touch = Statement::new(sql).bind(group.to_string());
    tx.execute(touch).await.map(drop)
}

pub(super) async fn id(tx: &mut Transaction, group: Uuid) -> Result<Option<i64>, SqlError> {
    let sql = "SELECT id FROM server_groups WHERE uuid = ?";
    let row = tx.row(Statement::new(sql).bind(group.to_string())).await?;
    row.map(|row| row.int(0)).transpose()
}
