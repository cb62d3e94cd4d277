//! Finds and removes stale members of server groups: members of a conductor that lost its journal.
//!
//! A member is stale if no host reports it and it has no allocations in Placement (which the caller checks). A
//! conductor that is slow between placement and claim looks the same from outside. Therefore it confirms the
//! membership after its claim ([`Hosts::confirm_member`]). Of removal and confirmation, the later one sees the
//! earlier one.

use super::ServerGroupError;
use super::placement::{GroupMember, find_group_id, touch_group};
use crate::hosts::Hosts;
use crate::store::{HostTableError, typed};
use berth_store::{Row, Statement, Transaction, Work};

/// A member with its host, as read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedMember {
    /// The member and its owner.
    pub member: GroupMember,
    pub host: String,
    /// Whether its owner confirmed the claim ([`Hosts::confirm_member`]).
    pub is_claimed: bool,
}

impl Hosts {
    /// Members of all groups that no host reports.
    pub async fn unreported_members(&self) -> Result<Vec<PlacedMember>, HostTableError> {
        let mut placed = read_members(&mut self.tables.read().await?).await?;
        if placed.is_empty() {
            return Ok(placed);
        }
        let reported = self.reported_instances().await?;
        placed.retain(|placed| !reported.contains(&placed.member.instance.to_string()));
        Ok(placed)
    }

    /// Removes a stale member, if it has not changed since it was read. Returns whether it was removed.
    pub async fn remove_stale_member(
        &self,
        placed: &PlacedMember,
    ) -> Result<bool, ServerGroupError> {
        self.tables.write(&RemoveStaleMember(placed)).await
    }
}

async fn read_members(tx: &mut Transaction) -> Result<Vec<PlacedMember>, HostTableError> {
    let sql = "SELECT g.uuid, m.instance_uuid, m.owner, m.host, m.claimed FROM server_group_members m \
               JOIN server_groups g ON g.id = m.group_id";
    let rows = tx.rows(Statement::new(sql)).await?;
    let of_members = |row: &Row, at: usize, column| {
        let text = row.text(at)?;
        typed(&text, "server_group_members", column)
    };
    let placed = rows.iter().map(|row| {
        Ok(PlacedMember {
            member: GroupMember {
                group: typed(&row.text(0)?, "server_groups", "uuid")?,
                instance: of_members(row, 1, "instance_uuid")?,
                owner: of_members(row, 2, "owner")?,
            },
            host: row.text(3)?,
            is_claimed: row.int(4)? != 0,
        })
    });
    placed.collect()
}

struct RemoveStaleMember<'a>(&'a PlacedMember);

impl Work for RemoveStaleMember<'_> {
    type Output = bool;
    type Error = ServerGroupError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, ServerGroupError> {
        let PlacedMember {
            member,
            host,
            is_claimed,
        } = self.0;
        touch_group(tx, member.group).await?;
        let Some(id) = find_group_id(tx, member.group).await? else {
            return Ok(false);
        };
        let sql = "DELETE FROM server_group_members \
                   WHERE instance_uuid = ? AND owner = ? AND host = ? AND claimed = ? AND group_id = ?";
        let delete = Statement::new(sql)
            .bind(member.instance.to_string())
            .bind(member.owner.to_string())
            .bind(host)
            .bind(i64::from(*is_claimed))
            .bind(id);
        Ok(tx.execute(delete).await?.rows_affected == 1)
    }
}
