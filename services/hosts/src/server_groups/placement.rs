//! Places members of a server group on hosts by compare-and-swap on the group's generation, and removes them.
//!
//! Each member has an owner, the conductor that boots it. Only the owner moves or removes the member, except for
//! stale members ([`Hosts::remove_stale_member`]).

use berth_store::{SqlError, Statement, Transaction, Work};
use uuid::Uuid;

use super::ServerGroupError;
use crate::hosts::Hosts;
use crate::report::check_host_name;
use crate::store::typed;

/// A member of a server group and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupMember {
    pub group: Uuid,
    pub instance: Uuid,
    /// UUID of the conductor's journal.
    pub owner: Uuid,
}

impl Hosts {
    /// Places an instance on a host, if the group still has `generation`. Returns the new generation.
    ///
    /// Call it before the claim in Placement. If the claim fails, call it again with another host, or call
    /// [`Hosts::remove_member`]. A caller that did not get the answer reads the group again and repeats the call:
    /// an instance's own placement is no obstacle.
    pub async fn place_member(
        &self,
        member: GroupMember,
        generation: i64,
        host: &str,
    ) -> Result<i64, ServerGroupError> {
        check_host_name(host)?;
        let place = PlaceMember {
            member: &member,
            generation,
            host,
        };
        self.tables.write(&place).await
    }

    /// Records that the member's resources are claimed. Returns whether the member is still placed.
    ///
    /// `false` means that it was removed as stale between [`Hosts::place_member`] and the claim; the caller must
    /// then release the claim. For a deleted group the result is `true`.
    pub async fn confirm_member(&self, member: GroupMember) -> Result<bool, ServerGroupError> {
        self.tables.write(&ConfirmMember(&member)).await
    }

    /// Removes an instance from a group. Does nothing if the instance is not in the group or has another owner.
    pub async fn remove_member(&self, member: GroupMember) -> Result<(), ServerGroupError> {
        self.tables.write(&RemoveMember(&member)).await
    }
}

struct PlaceMember<'a> {
    member: &'a GroupMember,
    generation: i64,
    host: &'a str,
}

impl Work for PlaceMember<'_> {
    type Output = i64;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<i64, ServerGroupError> {
        let group = self.member.group;
        let sql = "UPDATE server_groups SET generation = generation + 1 WHERE uuid = ? AND generation = ?";
        let swap = Statement::new(sql)
            .bind(group.to_string())
            .bind(self.generation);
        let swapped = tx.execute(swap).await?.rows_affected == 1;
        let Some(id) = find_group_id(tx, group).await? else {
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

impl PlaceMember<'_> {
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

struct ConfirmMember<'a>(&'a GroupMember);

impl Work for ConfirmMember<'_> {
    type Output = bool;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, ServerGroupError> {
        let (instance, owner) = (self.0.instance.to_string(), self.0.owner.to_string());
        let sql =
            "UPDATE server_group_members SET claimed = 1 WHERE instance_uuid = ? AND owner = ?";
        let note = Statement::new(sql).bind(&instance).bind(&owner);
        tx.execute(note).await?;
        let Some(id) = find_group_id(tx, self.0.group).await? else {
            return Ok(true);
        };
        let sql = "SELECT 1 FROM server_group_members WHERE instance_uuid = ? AND owner = ? AND group_id = ?";
        let row = Statement::new(sql).bind(instance).bind(owner).bind(id);
        Ok(tx.row(row).await?.is_some())
    }
}

struct RemoveMember<'a>(&'a GroupMember);

impl Work for RemoveMember<'_> {
    type Output = ();
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), ServerGroupError> {
        let member = self.0;
        // All changes of members lock the group's row first.
        touch_group(tx, member.group).await?;
        if let Some(id) = find_group_id(tx, member.group).await? {
            let sql = "DELETE FROM server_group_members WHERE instance_uuid = ? AND owner = ? AND group_id = ?";
            let delete = Statement::new(sql)
                .bind(member.instance.to_string())
                .bind(member.owner.to_string());
            tx.execute(delete.bind(id)).await?;
        }
        Ok(())
    }
}

pub(super) async fn touch_group(tx: &mut Transaction, group: Uuid) -> Result<(), SqlError> {
    let sql = "UPDATE server_groups SET generation = generation + 1 WHERE uuid = ?";
    let touch = Statement::new(sql).bind(group.to_string());
    tx.execute(touch).await.map(drop)
}

pub(super) async fn find_group_id(
    tx: &mut Transaction,
    group: Uuid,
) -> Result<Option<i64>, SqlError> {
    let sql = "SELECT id FROM server_groups WHERE uuid = ?";
    let row = tx.row(Statement::new(sql).bind(group.to_string())).await?;
    row.map(|row| row.int(0)).transpose()
}
